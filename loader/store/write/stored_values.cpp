// SPDX-License-Identifier: Apache-2.0
#include "store/write/stored_values.hpp"

#include <cstdint>
#include <cstring>
#include <utility>

namespace h5feed {
namespace {

using Kind = ValueShape::Kind;

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

namespace {

// Returns the bytes that the parts of variable length of one value take in a global heap, with the headers of
// the heap's objects.
std::uint64_t object_bytes(const ValueShape& shape, const std::byte* value) {
  constexpr std::uint64_t kHeader = 24;  // 16 bytes, and up to 7 behind the object
  if (!shape.has_variable) return 0;
  std::uint64_t bytes = 0;
  switch (shape.kind) {
    case Kind::text: {
      const char* text = nullptr;
      std::memcpy(&text, value, sizeof text);
      return text == nullptr ? 0 : kHeader + std::strlen(text) + 1;
    }
    case Kind::sequence: {
      hvl_t sequence;
      std::memcpy(&sequence, value, sizeof sequence);
      const ValueShape& base = shape.parts.front().shape;
      const auto* const elements = static_cast<const std::byte*>(sequence.p);
      bytes = sequence.len == 0 ? 0 : kHeader + sequence.len * base.bytes;
      for (std::size_t i = 0; base.has_variable && i < sequence.len; ++i)
        bytes += object_bytes(base, elements + i * base.bytes);
      return bytes;
    }
    case Kind::compound:
      for (const auto& [offset, part] : shape.parts) bytes += object_bytes(part, value + offset);
      return bytes;
    case Kind::array: {
      const ValueShape& base = shape.parts.front().shape;
      for (std::size_t i = 0; i < shape.count; ++i) bytes += object_bytes(base, value + i * base.bytes);
      return bytes;
    }
    default:
      return 0;
  }
}

}  // namespace

std::uint64_t heap_bytes(const ValueShape& shape, std::span<const std::byte> values, std::size_t elements) {
  if (!shape.has_variable) return 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < elements; ++i) bytes += object_bytes(shape, values.data() + i * shape.bytes);
  // An object that does not fit into what a block of 4 KiB has left begins another one.
  constexpr std::uint64_t kBlock = 4096;
  return 2 * bytes + kBlock;
}

}  // namespace h5feed
