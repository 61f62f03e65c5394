// SPDX-License-Identifier: Apache-2.0
#include "store/write/stored_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/byte_units.hpp"

namespace h5feed {
namespace {

using Kind = ValueShape::Kind;

// Size of the values read at a time, with what they refer to; at least one row is read.
constexpr std::size_t kPieceBytes = 4 * kMiB;
constexpr std::size_t kFirstElements = 64;

// Counts the memory that libhdf5 takes for values of variable length.
class VariableBytes {
 public:
  VariableBytes() : list_(H5Pcreate(H5P_DATASET_XFER)) {
    H5Pset_vlen_mem_manager(list_.get(), take, &bytes_, give, nullptr);
  }
  VariableBytes(const VariableBytes&) = delete;
  VariableBytes& operator=(const VariableBytes&) = delete;

  /// Properties of the H5Dread calls that count.
  hid_t list() const noexcept { return list_.get(); }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  // As libhdf5 does without such functions: what was read is given back without these properties.
  static void* take(std::size_t bytes, void* sum) {
    *static_cast<std::uint64_t*>(sum) += bytes;
    return std::malloc(bytes);
  }
  static void give(void* memory, void*) { std::free(memory); }

  const ScopedId list_;
  std::uint64_t bytes_ = 0;
};

void add_part(ValueShape& shape, std::size_t offset, ValueShape part) {
  shape.has_references = shape.has_references || part.has_references;
  shape.has_variable = shape.has_variable || part.has_variable;
  shape.parts.push_back({offset, std::move(part)});
}

}  // namespace

Reclaim::~Reclaim() {
#if H5_VERSION_GE(1, 12, 0)
  H5Treclaim(type_, space_, H5P_DEFAULT, values_);
#else
  H5Dvlen_reclaim(type_, space_, H5P_DEFAULT, values_);
#endif
}

ValueShape value_shape(hid_t type, const Hdf5Calls& calls, const std::string& object) {
  const auto part_of = [&](hid_t part) H5FEED_REQUIRES(hdf5_mutex) {
    const ScopedId id = calls.id(part, object, "its type cannot be read");
    return value_shape(id.get(), calls, object);
  };
  ValueShape shape;
  shape.bytes = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_REFERENCE:
      shape.has_references = true;
      if (H5Tequal(type, H5T_STD_REF_OBJ) > 0) {
        shape.kind = Kind::object_reference;
      } else if (H5Tequal(type, H5T_STD_REF_DSETREG) > 0) {
        shape.kind = Kind::region_reference;
      } else {
        calls.refuse(object, "references of a kind that h5feed does not know cannot be carried over");
      }
      break;
    case H5T_STRING:
      if (H5Tis_variable_str(type) > 0) {
        shape.kind = Kind::text;
        shape.has_variable = true;
      }
      break;
    case H5T_VLEN:
      shape.kind = Kind::sequence;
      add_part(shape, 0, part_of(H5Tget_super(type)));
      shape.has_variable = true;
      break;
    case H5T_ARRAY: {
      shape.kind = Kind::array;
      ValueShape base = part_of(H5Tget_super(type));
      shape.count = base.bytes == 0 ? 0 : shape.bytes / base.bytes;
      add_part(shape, 0, std::move(base));
      break;
    }
    case H5T_COMPOUND: {
      shape.kind = Kind::compound;
      const int members = H5Tget_nmembers(type);
      for (int i = 0; i < members; ++i) {
        const auto member = static_cast<unsigned>(i);
        add_part(shape, H5Tget_member_offset(type, member), part_of(H5Tget_member_type(type, member)));
      }
      break;
    }
    default:
      break;
  }
  return shape;
}

void visit_references(const ValueShape& shape, std::byte* value,
                      const std::function<void(Kind, std::byte*)>& visit) {
  if (!shape.has_references) return;
  switch (shape.kind) {
    case Kind::object_reference:
    case Kind::region_reference:
      visit(shape.kind, value);
      return;
    case Kind::compound:
      for (const auto& [offset, part] : shape.parts) visit_references(part, value + offset, visit);
      return;
    case Kind::array: {
      const ValueShape& base = shape.parts.front().shape;
      for (std::size_t i = 0; i < shape.count; ++i) visit_references(base, value + i * base.bytes, visit);
      return;
    }
    case Kind::sequence: {
      hvl_t sequence;
      std::memcpy(&sequence, value, sizeof sequence);
      const ValueShape& base = shape.parts.front().shape;
      auto* const elements = static_cast<std::byte*>(sequence.p);
      for (std::size_t i = 0; i < sequence.len; ++i) visit_references(base, elements + i * base.bytes, visit);
      return;
    }
    default:
      return;
  }
}

void serialize(const ValueShape& shape, std::byte* value,
               const std::function<std::string(Kind, std::byte*)>& reference_text,
               const std::function<void(std::span<const std::byte>)>& update) {
  if (!shape.has_references && !shape.has_variable) {
    update({value, shape.bytes});
    return;
  }
  // Lengths come first, so that different values cannot produce the same bytes.
  const auto put = [&update](const void* bytes, std::size_t length) {
    update(std::as_bytes(std::span(&length, 1)));
    if (length > 0) update({static_cast<const std::byte*>(bytes), length});
  };
  switch (shape.kind) {
    case Kind::object_reference:
    case Kind::region_reference: {
      const std::string text = reference_text(shape.kind, value);
      put(text.data(), text.size());
      return;
    }
    case Kind::text: {
      const char* text = nullptr;
      std::memcpy(&text, value, sizeof text);
      put(text, text == nullptr ? 0 : std::strlen(text));
      return;
    }
    case Kind::compound:
      for (const auto& [offset, part] : shape.parts) serialize(part, value + offset, reference_text, update);
      return;
    case Kind::array: {
      const ValueShape& base = shape.parts.front().shape;
      for (std::size_t i = 0; i < shape.count; ++i)
        serialize(base, value + i * base.bytes, reference_text, update);
      return;
    }
    case Kind::sequence: {
      hvl_t sequence;
      std::memcpy(&sequence, value, sizeof sequence);
      const ValueShape& base = shape.parts.front().shape;
      auto* const elements = static_cast<std::byte*>(sequence.p);
      update(std::as_bytes(std::span(&sequence.len, 1)));
      for (std::size_t i = 0; i < sequence.len; ++i)
        serialize(base, elements + i * base.bytes, reference_text, update);
      return;
    }
    default:
      return;
  }
}

void read_in_pieces(hid_t dataset, hid_t type, const Hdf5Calls& calls, const std::string& path,
                    const std::function<void(std::span<std::byte>, std::size_t, hid_t, hid_t)>& use) {
  const ScopedId file_space = calls.id(H5Dget_space(dataset), path, "its extent cannot be read");
  const hssize_t points = H5Sget_simple_extent_npoints(file_space.get());
  if (H5Sget_simple_extent_type(file_space.get()) == H5S_NULL || points <= 0) return;
  std::array<hsize_t, H5S_MAX_RANK> extent = {};
  const int rank = calls.done(H5Sget_simple_extent_dims(file_space.get(), extent.data(), nullptr), path,
                              "its extent cannot be read");
  const std::size_t element_bytes = H5Tget_size(type);
  const hsize_t rows = rank == 0 ? 1 : extent[0];
  const auto row_elements = static_cast<std::size_t>(static_cast<hsize_t>(points) / rows);
  const std::size_t row_bytes = std::max<std::size_t>(1, row_elements * element_bytes);
  VariableBytes variable;
  // Few at first, until it is known how large what they refer to is.
  hsize_t next = std::clamp<hsize_t>(kFirstElements / std::max<std::size_t>(1, row_elements), 1, rows);
  for (hsize_t first = 0, count = 0; first < rows; first += count) {
    count = std::min(next, rows - first);
    const std::size_t elements = static_cast<std::size_t>(count) * row_elements;
    const auto flat = static_cast<hsize_t>(elements);
    const ScopedId memory_space = calls.id(H5Screate_simple(1, &flat, nullptr), path, "no memory space");
    if (rank > 0) {
      std::array<hsize_t, H5S_MAX_RANK> start = {};
      std::array<hsize_t, H5S_MAX_RANK> box = extent;
      start[0] = first;
      box[0] = count;
      calls.done(
          H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, box.data(), nullptr),
          path, "its rows cannot be selected");
    }
    // Zeroed, as libhdf5 does not write the gaps between the members of a compound.
    std::vector<std::byte> values(elements * element_bytes);
    const std::uint64_t before = variable.bytes();
    calls.done(H5Dread(dataset, type, memory_space.get(), file_space.get(), variable.list(), values.data()),
               path, "its values cannot be read");
    const Reclaim reclaim(type, memory_space.get(), values.data());
    use(values, elements, memory_space.get(), file_space.get());
    const std::uint64_t bytes_each = row_bytes + (variable.bytes() - before) / count;
    constexpr hsize_t kFastestGrowth = 4;
    next = std::clamp<hsize_t>(kPieceBytes / bytes_each, 1, kFastestGrowth * count);
  }
}

}  // namespace h5feed
