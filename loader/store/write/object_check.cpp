// SPDX-License-Identifier: Apache-2.0
// Examines objects without writing: checks them before a copy, and compares both sides after it.
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <string_view>

#include "base/clock.hpp"
#include "store/write/copy_side.hpp"
#include "store/write/object_copy.hpp"
#include "store/write/value_pieces.hpp"

namespace h5feed {

std::vector<std::uint64_t> object_numbers(const H5File& file, const std::vector<std::string>& paths) {
  if (const IsolatedFile* const remote = H5FileAccess::remote(file))
    return remote->ask<std::vector<std::uint64_t>>(Request::object_numbers, paths);
  std::vector<std::uint64_t> numbers;
  in_copy_session(file, [&](const Hdf5Session& session) H5FEED_REQUIRES(hdf5_mutex) {
    const H5::H5File handle = H5FileAccess::handle(file);
    const Hdf5Calls calls(session, file.path().string());
    for (const std::string& path : paths)
      numbers.push_back(key_of(handle.getId(), path.c_str(), calls, path));
  });
  return numbers;
}

namespace {

// Calls `proceed` between the objects; it may throw.
void check_objects(const CopySide& side, const CopyPlan& plan, const std::function<void()>& proceed)
    H5FEED_REQUIRES(hdf5_mutex) {
  for (const TreeObject& object : side.tree.objects) {
    proceed();
    const ScopedId id = side.open(object.path);
    if (object.kind == H5I_DATASET) side.method_of(object, id.get(), plan);
    for (const std::string& name : attribute_names(id.get(), side.calls, object.path)) {
      const std::string holder = fmt::format("{} attribute {}", object.path, name);
      const ScopedId attribute =
          side.calls.id(H5Aopen(id.get(), name.c_str(), H5P_DEFAULT), holder, "cannot be opened");
      with_attribute(
          side.calls, attribute.get(), holder,
          [&](hid_t, hid_t, const ValueShape& shape, std::span<std::byte> values, std::size_t elements)
              H5FEED_REQUIRES(hdf5_mutex) { side.check_references(shape, values.data(), elements, holder); });
    }
  }
}

// Returns the links to files that are named relative to the folder of this one.
std::vector<std::string> relative_links(const CopySide& side) H5FEED_REQUIRES(hdf5_mutex) {
  std::vector<std::string> links;
  for (const TreeObject& group : side.tree.objects) {
    for (const TreeLink& link : group.links) {
      if (link.type != H5L_TYPE_EXTERNAL) continue;
      const std::string place = fmt::format("{}{}{}", group.path, group.path == "/" ? "" : "/", link.name);
      const char* file = nullptr;
      const char* object = nullptr;
      side.calls.done(H5Lunpack_elink_val(link.value.data(), link.value.size(), nullptr, &file, &object),
                      place, "the link cannot be read");
      if (*file != '/') links.push_back(place);
    }
  }
  return links;
}

}  // namespace

std::vector<std::string> check_copyable(const H5File& source, const CopyPlan& plan) {
  std::vector<std::string> moved;
  in_copy_session(source, [&](const Hdf5Session& session) H5FEED_REQUIRES(hdf5_mutex) {
    const CopySide side(source, session, plan);
    check_objects(side, plan, [] {});
    if (plan.elsewhere) moved = relative_links(side);
  });
  return moved;
}

void rehearse_copy(const H5File& source, const CopyPlan& plan) {
  if (const IsolatedFile* const remote = H5FileAccess::remote(source)) {
    std::vector<std::string> filled;
    for (const auto& [path, storage] : plan.filled_by_caller) filled.push_back(path);
    remote->ask<bool>(Request::rehearse_copy, filled, plan.latest, plan.elsewhere);
    return;
  }
  struct Enough {};
  try {
    in_copy_session(source, [&](const Hdf5Session& session) H5FEED_REQUIRES(hdf5_mutex) {
      const CopySide side(source, session, plan);
      const Clock::time_point deadline = Clock::now() + std::chrono::seconds(20);
      const auto stop_in_time = [&] {
        if (Clock::now() > deadline) throw Enough();
      };
      check_objects(side, plan, stop_in_time);
      for (const TreeObject& object : side.tree.objects) {
        if (object.kind != H5I_DATASET) continue;
        const ScopedId id = side.open(object.path);
        const ScopedId type = side.calls.id(H5Dget_type(id.get()), object.path, kNoType);
        const ValueShape shape = value_shape(type.get(), side.calls, object.path);
        const CopyMethod method = side.method_of(object, id.get(), plan);
        const bool read = method == CopyMethod::verbatim || method == CopyMethod::by_values;
        if (!read || !(shape.has_variable || shape.has_references)) continue;
        const H5::DSetCreatPropList plist(
            side.calls.id(H5Dget_create_plist(id.get()), object.path, kNoProperties).get());
        if (!missing_filters(plist).empty()) continue;
        read_in_pieces(id.get(), type.get(), side.calls, object.path,
                       [&](std::span<std::byte>, std::size_t, hid_t, hid_t) { stop_in_time(); });
      }
    });
  } catch (const Enough&) {  // the copy reads the rest by itself
  }
}

void visit_values(const H5File& file, const CopyPlan& plan,
                  const std::function<void(const std::string&, std::span<const std::byte>)>& update) {
  in_copy_session(file, [&](const Hdf5Session& session) H5FEED_REQUIRES(hdf5_mutex) {
    const CopySide side(file, session, plan);
    for (const TreeObject& object : side.tree.objects) {
      const auto put = [&](std::span<const std::byte> bytes) { update(object.path, bytes); };
      const auto put_text = [&](std::string_view text) { put(std::as_bytes(std::span(text))); };
      const auto put_elements = [&](const ValueShape& shape, std::span<std::byte> values,
                                    std::size_t elements,
                                    const std::string& holder) H5FEED_REQUIRES(hdf5_mutex) {
        if (!shape.has_references && !shape.has_variable) {
          put(values);
          return;
        }
        const auto text = [&](ValueShape::Kind kind, std::byte* value) H5FEED_REQUIRES(hdf5_mutex) {
          return side.reference_text(kind, value, holder);
        };
        for (std::size_t i = 0; i < elements; ++i)
          serialize(shape, values.data() + i * shape.bytes, text, put);
      };
      for (const TreeLink& link : object.links) {
        put_text(link.name);
        put_text(link.type == H5L_TYPE_HARD ? side.target(link.target, object.path).path
                                            : std::string_view(link.value.data(), link.value.size()));
      }
      const ScopedId id = side.open(object.path);
      for (const std::string& name : attribute_names(id.get(), side.calls, object.path)) {
        put_text(name);
        const ScopedId attribute =
            side.calls.id(H5Aopen(id.get(), name.c_str(), H5P_DEFAULT), object.path, "cannot be opened");
        with_attribute(
            side.calls, attribute.get(), object.path,
            [&](hid_t, hid_t, const ValueShape& shape, std::span<std::byte> values, std::size_t elements)
                H5FEED_REQUIRES(hdf5_mutex) { put_elements(shape, values, elements, object.path); });
      }
      if (object.kind != H5I_DATASET) continue;
      const CopyMethod method = side.method_of(object, id.get(), plan);
      if (method != CopyMethod::verbatim && method != CopyMethod::by_values) continue;
      const H5::DSetCreatPropList plist(
          side.calls.id(H5Dget_create_plist(id.get()), object.path, kNoProperties).get());
      // Values that libhdf5 cannot decode were copied verbatim.
      if (!missing_filters(plist).empty()) continue;
      const ScopedId type = side.calls.id(H5Dget_type(id.get()), object.path, kNoType);
      const ValueShape shape = value_shape(type.get(), side.calls, object.path);
      with_fill_value(side.calls, plist, type.get(), object.path,
                      [&](std::span<std::byte> value)
                          H5FEED_REQUIRES(hdf5_mutex) { put_elements(shape, value, 1, object.path); });
      read_in_pieces(id.get(), type.get(), side.calls, object.path,
                     [&](std::span<std::byte> values, std::size_t elements, hid_t, hid_t)
                         H5FEED_REQUIRES(hdf5_mutex) { put_elements(shape, values, elements, object.path); });
    }
  });
}

}  // namespace h5feed
