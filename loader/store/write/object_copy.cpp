// SPDX-License-Identifier: Apache-2.0
#include "store/write/object_copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "base/byte_units.hpp"
#include "store/hdf5/h5_metadata.hpp"
#include "store/write/copy_side.hpp"
#include "store/write/creation_properties.hpp"
#include "store/write/h5_writer_handles.hpp"
#include "store/write/type_copy.hpp"
#include "store/write/value_pieces.hpp"

namespace h5feed {
namespace {

// Returns the name of a source as libhdf5 wants it, which takes "%b" for a number.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) text.append(c == '%' ? 2 : 1, c);
  return text;
}

class ObjectCopy {
 public:
  ObjectCopy(const CopySide& source, H5Writer& writer, const CopyPlan& plan, const Hdf5Session& session)
      H5FEED_REQUIRES(hdf5_mutex)
      : source_(source),
        state_(H5WriterAccess::state(writer)),
        file_(state_.file),
        plan_(plan),
        calls_(session, state_.staged.target().string()) {}

  void run(const std::function<void()>& proceed) H5FEED_REQUIRES(hdf5_mutex) {
    make_types();
    made_.emplace(source_.tree.objects.front().key, key_of(file_, "/", calls_, "/"));
    for (const TreeObject& object : source_.tree.objects) {
      if (object.kind == H5I_GROUP) make_links(object, proceed);
    }
    // References are written last: they need all objects to exist.
    for (const TreeObject& object : source_.tree.objects) {
      proceed();
      make_attributes(object);
      if (object.kind == H5I_DATASET && by_values_.contains(object.key)) copy_values(object, proceed);
    }
  }

 private:
  // Committed types come first, since any dataset or attribute may have one.
  void make_types() H5FEED_REQUIRES(hdf5_mutex) {
    for (const TreeObject& object : source_.tree.objects) {
      if (object.kind != H5I_DATATYPE) continue;
      const ScopedId from = source_.open(object.path);
      const ScopedId properties = calls_.id(H5Tget_create_plist(from.get()), object.path, kNoProperties);
      ScopedId type = new_type(from.get(), object.path);
      calls_.done(H5Tcommit_anon(file_, type.get(), properties.get(), H5P_DEFAULT), object.path,
                  "the type cannot be committed");
      types_.emplace(object.key, std::move(type));
    }
  }

  void make_links(const TreeObject& group, const std::function<void()>& proceed) H5FEED_REQUIRES(hdf5_mutex) {
    const ScopedId from = source_.open(group.path);
    const ScopedId to =
        calls_.id(H5Gopen2(file_, group.path.c_str(), H5P_DEFAULT), group.path, "cannot be made");
    for (const TreeLink& link : group.links) {
      proceed();
      state_.reserve(link.value.size());
      const ScopedId properties = calls_.id(H5Pcreate(H5P_LINK_CREATE), group.path, kNoProperties);
      H5Pset_char_encoding(properties.get(), link.character_set);
      make_link(group, link, from.get(), to.get(), properties.get());
    }
  }

  void make_link(const TreeObject& group, const TreeLink& link, hid_t from, hid_t to, hid_t properties)
      H5FEED_REQUIRES(hdf5_mutex) {
    const std::string place = fmt::format("{}{}{}", group.path, group.path == "/" ? "" : "/", link.name);
    const char* const name = link.name.c_str();
    constexpr const char* kNotMade = "the link cannot be made";
    if (link.type == H5L_TYPE_SOFT) {
      calls_.done(H5Lcreate_soft(link.value.data(), to, name, properties, H5P_DEFAULT), place, kNotMade);
    } else if (link.type == H5L_TYPE_EXTERNAL) {
      const char* file = nullptr;
      const char* object = nullptr;
      calls_.done(H5Lunpack_elink_val(link.value.data(), link.value.size(), nullptr, &file, &object), place,
                  kNotMade);
      calls_.done(H5Lcreate_external(file, object, to, name, properties, H5P_DEFAULT), place, kNotMade);
    } else if (const auto found = made_.find(link.target); found != made_.end()) {
      const ScopedId object = calls_.id(
          H5Oopen(file_, source_.tree.find(link.target)->path.c_str(), H5P_DEFAULT), place, kNotMade);
      calls_.done(H5Olink(object.get(), to, name, properties, H5P_DEFAULT), place, kNotMade);
    } else {
      make_object(*source_.tree.find(link.target), name, from, to, properties);
      made_.emplace(link.target, key_of(to, name, calls_, place));
    }
  }

  void make_object(const TreeObject& object, const char* name, hid_t from, hid_t to, hid_t link_properties)
      H5FEED_REQUIRES(hdf5_mutex) {
    const std::string& path = object.path;
    if (object.kind == H5I_DATASET) {
      make_dataset(object, name, from, to, link_properties);
      return;
    }
    ScopedId made;
    if (object.kind == H5I_GROUP) {
      const ScopedId original = source_.open(path);
      const ScopedId properties = group_properties(original.get(), path);
      made = calls_.id(H5Gcreate_anon(file_, properties.get(), H5P_DEFAULT), path, "cannot be made");
    }
    const hid_t linked = object.kind == H5I_GROUP ? made.get() : types_.at(object.key).get();
    calls_.done(H5Olink(linked, to, name, link_properties, H5P_DEFAULT), path, "cannot be linked");
  }

  // The group's property list is not copied as a whole: if libhdf5 keeps the links in a heap, the list
  // contains its address.
  ScopedId group_properties(hid_t original, const std::string& path) H5FEED_REQUIRES(hdf5_mutex) {
    const ScopedId from = calls_.id(H5Gget_create_plist(original), path, kNoProperties);
    ScopedId to = calls_.id(H5Pcreate(H5P_GROUP_CREATE), path, kNoProperties);
    unsigned links = 0, name_bytes = 0;
    if (H5Pget_est_link_info(from.get(), &links, &name_bytes) < 0 ||
        H5Pset_est_link_info(to.get(), links, name_bytes) < 0) {
      calls_.done(-1, path, kNoProperties);
    }
    calls_.done(copy_group_properties(from.get(), to.get()), path, kNoProperties);
    return to;
  }

  // Returns the same type in the copy: the committed type if it is committed.
  ScopedId type_in_copy(hid_t type, const std::string& path) H5FEED_REQUIRES(hdf5_mutex) {
    if (H5Tcommitted(type) > 0) {
      const ObjectKey key = key_of(type, ".", source_.calls, path);
      const auto found = types_.find(key);
      if (found != types_.end()) {
        H5Iinc_ref(found->second.get());
        return ScopedId(found->second.get());
      }
    }
    return new_type(type, path);
  }

  // Returns the same type in the copy, not committed.
  ScopedId new_type(hid_t type, const std::string& path) const H5FEED_REQUIRES(hdf5_mutex) {
    return plan_.latest ? calls_.id(H5Tcopy(type), path, kNoType) : oldest_form(type, calls_, path);
  }

  // Returns the same space. In a file with a table of shared messages, a space knows its place there, which
  // libhdf5 would look for in the copy as well.
  ScopedId new_space(hid_t space, const std::string& path) const H5FEED_REQUIRES(hdf5_mutex) {
    const H5S_class_t kind = H5Sget_simple_extent_type(space);
    if (kind != H5S_SIMPLE) return calls_.id(H5Screate(kind), path, kNoExtent);
    std::array<hsize_t, H5S_MAX_RANK> extent = {}, most = {};
    const int rank =
        calls_.done(H5Sget_simple_extent_dims(space, extent.data(), most.data()), path, kNoExtent);
    return calls_.id(H5Screate_simple(rank, extent.data(), most.data()), path, kNoExtent);
  }

  void make_dataset(const TreeObject& object, const char* name, hid_t from, hid_t to, hid_t link_properties)
      H5FEED_REQUIRES(hdf5_mutex) {
    const std::string& path = object.path;
    const ScopedId original = source_.open(path);
    const CopyMethod method = source_.method_of(object, original.get(), plan_);
    const ScopedId type = source_.calls.id(H5Dget_type(original.get()), path, kNoType);
    if (method == CopyMethod::verbatim) {
      state_.reserve(H5Dget_storage_size(original.get()));
      const ScopedId properties = calls_.id(H5Pcreate(H5P_OBJECT_COPY), path, kNoProperties);
      calls_.done(H5Pset_copy_object(properties.get(), H5O_COPY_WITHOUT_ATTR_FLAG), path, kNoProperties);
      calls_.done(H5Ocopy(from, name, to, name, properties.get(), link_properties), path, "cannot be copied");
      return;
    }
    const ScopedId properties =
        method == CopyMethod::virtual_view
            ? calls_.id(H5Dget_create_plist(original.get()), path, kNoProperties)
            : creation_properties(
                  object, original.get(), type.get(),
                  method == CopyMethod::by_caller ? &source_.filled.at(object.key).second : nullptr);
    const ScopedId from_space = calls_.id(H5Dget_space(original.get()), path, kNoExtent);
    const ScopedId space = new_space(from_space.get(), path);
    if (method == CopyMethod::by_caller && source_.filled.at(object.key).second.fixed_max_shape) {
      std::array<hsize_t, H5S_MAX_RANK> extent = {};
      const int rank = H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
      calls_.done(H5Sset_extent_simple(space.get(), rank, extent.data(), nullptr), path, kNoProperties);
    }
    // The caller reserves what it writes.
    state_.reserve(method == CopyMethod::by_caller ? 0 : H5Dget_storage_size(original.get()));
    const ScopedId copied_type = type_in_copy(type.get(), path);
    const ScopedId made =
        calls_.id(H5Dcreate_anon(file_, copied_type.get(), space.get(), properties.get(), H5P_DEFAULT), path,
                  "cannot be made");
    calls_.done(H5Olink(made.get(), to, name, link_properties, H5P_DEFAULT), path, "cannot be linked");
    if (method == CopyMethod::by_caller) {
      H5Iinc_ref(made.get());
      state_.datasets.emplace(source_.filled.at(object.key).first, made.get());
    } else if (method == CopyMethod::by_values) {
      by_values_.insert(object.key);
    }
  }

  // Returns the properties of a recreated dataset; the storage is the source's if `storage` is null.
  ScopedId creation_properties(const TreeObject& object, hid_t original, hid_t type,
                               const CopiedStorage* storage) H5FEED_REQUIRES(hdf5_mutex) {
    const std::string& path = object.path;
    const H5::DSetCreatPropList from(calls_.id(H5Dget_create_plist(original), path, kNoProperties).get());
    CopiedStorage same;
    if (storage == nullptr && from.getLayout() == H5D_CHUNKED) {
      std::array<hsize_t, H5S_MAX_RANK> chunk = {};
      const int rank = from.getChunk(static_cast<int>(chunk.size()), chunk.data());
      same.chunk_shape.assign(chunk.begin(), chunk.begin() + rank);
      same.filters = read_filters(from);
      // HDF5 1.8 cannot read them.
      unsigned options = 0;
      H5Pget_chunk_opts(from.getId(), &options);
      same.unfiltered_edge_chunks = plan_.latest && (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
    }
    const CopiedStorage& wanted = storage == nullptr ? same : *storage;
    const H5::DSetCreatPropList plist;
    H5D_fill_value_t defined = H5D_FILL_VALUE_DEFAULT;
    calls_.done(H5Pfill_value_defined(from.getId(), &defined), path, kNoProperties);
    if (defined == H5D_FILL_VALUE_UNDEFINED) H5Pset_fill_value(plist.getId(), type, nullptr);
    with_fill_value(calls_, from, type, path, [&](std::span<std::byte> value) {
      calls_.done(H5Pset_fill_value(plist.getId(), type, value.data()), path,
                  "its fill value cannot be kept");
    });
    calls_.done(copy_dataset_properties(from.getId(), plist.getId()), path, kNoProperties);
    if (storage == nullptr) {
      H5D_alloc_time_t allocation = H5D_ALLOC_TIME_DEFAULT;
      H5Pget_alloc_time(from.getId(), &allocation);
      // Once it is written to, such a copy would store the chunks with which the source has grown since.
      if (allocation == H5D_ALLOC_TIME_LATE && from.getLayout() == H5D_CHUNKED &&
          !stores_all_chunks(original, from, calls_, path))
        allocation = H5D_ALLOC_TIME_INCR;
      H5Pset_alloc_time(plist.getId(), allocation);
      for (int i = 0; i < from.getExternalCount(); ++i) {
        std::array<char, 4096> name = {};
        off_t offset = 0;
        hsize_t bytes = 0;
        if (H5Pget_external(from.getId(), static_cast<unsigned>(i), name.size(), name.data(), &offset,
                            &bytes) < 0 ||
            H5Pset_external(plist.getId(), name.data(), offset, bytes) < 0) {
          calls_.done(-1, path, kNoProperties);
        }
      }
    }
    if (!wanted.parts.empty()) {
      add_virtual_parts(plist, original, path, wanted.parts);
    } else if (wanted.chunk_shape.empty()) {
      if (storage == nullptr && from.getLayout() == H5D_COMPACT) plist.setLayout(H5D_COMPACT);
    } else {
      const std::vector<hsize_t> chunk(wanted.chunk_shape.begin(), wanted.chunk_shape.end());
      plist.setChunk(static_cast<int>(chunk.size()), chunk.data());
      if (wanted.unfiltered_edge_chunks)
        H5Pset_chunk_opts(plist.getId(), H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
      std::size_t chunk_bytes = H5Tget_size(type);
      for (const hsize_t extent : chunk) chunk_bytes *= extent;
      add_filters(plist, wanted.filters, chunk_bytes, H5Tget_size(type));
    }
    H5Iinc_ref(plist.getId());
    return ScopedId(plist.getId());
  }

  void add_virtual_parts(const H5::DSetCreatPropList& plist, hid_t original, const std::string& path,
                         const std::vector<VirtualPart>& parts) const H5FEED_REQUIRES(hdf5_mutex) {
    const ScopedId space = calls_.id(H5Dget_space(original), path, kNoExtent);
    std::array<hsize_t, H5S_MAX_RANK> extent = {}, start = {};
    const int rank = H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
    const ScopedId whole = calls_.id(H5Screate_simple(rank, extent.data(), nullptr), path, kNoProperties);
    for (const VirtualPart& part : parts) {
      extent.front() = part.rows;
      const ScopedId rows = calls_.id(H5Screate_simple(rank, extent.data(), nullptr), path, kNoProperties);
      if (H5Sselect_hyperslab(whole.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) <
              0 ||
          H5Pset_virtual(plist.getId(), whole.get(), escaped(part.file).c_str(),
                         escaped(part.dataset).c_str(), rows.get()) < 0) {
        calls_.done(-1, path, "cannot be made a view of its parts");
      }
      start.front() += part.rows;
    }
  }

  // Replaces a reference with the same reference in the copy.
  void translate(ValueShape::Kind kind, std::byte* value, const std::string& holder)
      H5FEED_REQUIRES(hdf5_mutex) {
    if (kind == ValueShape::Kind::object_reference) {
      ObjectKey key = 0;
      std::memcpy(&key, value, sizeof key);
      if (key != 0) key = made_.at(source_.target(key, holder).key);
      std::memcpy(value, &key, sizeof key);
      return;
    }
    if (null_region(value)) return;
    const auto [object, space] = source_.region(value, holder);
    calls_.done(H5Rcreate(value, file_, object->path.c_str(), H5R_DATASET_REGION, space.get()), holder,
                "a region reference cannot be made");
  }

  void translate_all(const ValueShape& shape, std::span<std::byte> values, std::size_t elements,
                     const std::string& holder) H5FEED_REQUIRES(hdf5_mutex) {
    source_.check_references(shape, values.data(), elements, holder);
    for (std::size_t i = 0; i < elements; ++i) {
      visit_references(shape, values.data() + i * shape.bytes,
                       [&](ValueShape::Kind kind, std::byte* value)
                           H5FEED_REQUIRES(hdf5_mutex) { translate(kind, value, holder); });
    }
  }

  void make_attributes(const TreeObject& object) H5FEED_REQUIRES(hdf5_mutex) {
    const ScopedId from = source_.open(object.path);
    const ScopedId to =
        calls_.id(H5Oopen(file_, object.path.c_str(), H5P_DEFAULT), object.path, "cannot be opened");
    for (const std::string& name : attribute_names(from.get(), source_.calls, object.path)) {
      const std::string holder = fmt::format("{} attribute {}", object.path, name);
      const ScopedId attribute =
          source_.calls.id(H5Aopen(from.get(), name.c_str(), H5P_DEFAULT), holder, "cannot be opened");
      const ScopedId properties = calls_.id(H5Aget_create_plist(attribute.get()), holder, kNoProperties);
      with_attribute(source_.calls, attribute.get(), holder,
                     [&](hid_t type, hid_t space, const ValueShape& shape, std::span<std::byte> values,
                         std::size_t elements) H5FEED_REQUIRES(hdf5_mutex) {
                       state_.reserve(values.size() + heap_bytes(shape, values, elements));
                       const ScopedId copied_type = type_in_copy(type, holder);
                       const ScopedId copied_space = new_space(space, holder);
                       const ScopedId made =
                           calls_.id(H5Acreate2(to.get(), name.c_str(), copied_type.get(), copied_space.get(),
                                                properties.get(), H5P_DEFAULT),
                                     holder, "cannot be made");
                       if (elements == 0) return;
                       translate_all(shape, values, elements, holder);
                       calls_.done(H5Awrite(made.get(), type, values.data()), holder, "cannot be written");
                     });
    }
    const ssize_t comment_bytes = H5Oget_comment(from.get(), nullptr, 0);
    if (comment_bytes > 0) {
      std::vector<char> comment(static_cast<std::size_t>(comment_bytes) + 1);
      H5Oget_comment(from.get(), comment.data(), comment.size());
      calls_.done(H5Oset_comment(to.get(), comment.data()), object.path, "its comment cannot be kept");
    }
  }

  void copy_values(const TreeObject& object, const std::function<void()>& proceed)
      H5FEED_REQUIRES(hdf5_mutex) {
    const std::string& path = object.path;
    const ScopedId from = source_.open(path);
    // Pieces may end within chunks, which would be encoded anew for each.
    const ScopedId access(H5Pcreate(H5P_DATASET_ACCESS));
    H5Pset_chunk_cache(access.get(), H5D_CHUNK_CACHE_NSLOTS_DEFAULT, 64 * kMiB, H5D_CHUNK_CACHE_W0_DEFAULT);
    const ScopedId to = calls_.id(H5Dopen2(file_, path.c_str(), access.get()), path, "cannot be opened");
    const ScopedId type = source_.calls.id(H5Dget_type(from.get()), path, kNoType);
    const ValueShape shape = value_shape(type.get(), source_.calls, path);
    state_.reserve(H5Dget_storage_size(from.get()));
    read_in_pieces(from.get(), type.get(), source_.calls, path,
                   [&](std::span<std::byte> values, std::size_t elements, hid_t memory_space,
                       hid_t file_space) H5FEED_REQUIRES(hdf5_mutex) {
                     proceed();
                     state_.reserve(values.size() + heap_bytes(shape, values, elements));
                     translate_all(shape, values, elements, path);
                     calls_.done(
                         H5Dwrite(to.get(), type.get(), memory_space, file_space, H5P_DEFAULT, values.data()),
                         path, "cannot be written");
                     state_.staged.wrote(values.size());
                   });
  }

  const CopySide& source_;
  H5WriterAccess::State& state_;
  const hid_t file_;
  const CopyPlan& plan_;
  const Hdf5Calls calls_;
  std::map<ObjectKey, ScopedId> types_;  // Committed types of the copy, by the source's key
  std::map<ObjectKey, ObjectKey> made_;  // Keys in the copy, by the source's key
  std::set<ObjectKey> by_values_;        // Filled once all objects exist
};

}  // namespace

void copy_objects(const H5File& source, H5Writer& writer, const CopyPlan& plan,
                  const std::function<void()>& proceed) {
  in_copy_session(source, [&](const Hdf5Session& session) H5FEED_REQUIRES(hdf5_mutex) {
    const CopySide side(source, session, plan);
    ObjectCopy(side, writer, plan, session).run(proceed);
  });
}

}  // namespace h5feed
