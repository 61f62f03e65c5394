// SPDX-License-Identifier: Apache-2.0
#include "store/write/type_copy.hpp"

#include <array>
#include <cstddef>
#include <vector>

#include "store/write/copy_side.hpp"

namespace h5feed {
namespace {

constexpr const char* kNotMade = "its type cannot be recreated";

ScopedId member_type(hid_t type, unsigned member, const Hdf5Calls& calls, const std::string& path)
    H5FEED_REQUIRES(hdf5_mutex) {
  return calls.id(H5Tget_member_type(type, member), path, kNoType);
}

// Frees names, which libhdf5 returns in memory that it allocated.
class MemberName {
 public:
  MemberName(hid_t type, unsigned member, const Hdf5Calls& calls, const std::string& path)
      H5FEED_REQUIRES(hdf5_mutex)
      : name_(H5Tget_member_name(type, member)) {
    if (name_ == nullptr) calls.done(-1, path, kNoType);
  }
  MemberName(const MemberName&) = delete;
  MemberName& operator=(const MemberName&) = delete;
  ~MemberName() { H5free_memory(name_); }
  const char* text() const noexcept { return name_; }

 private:
  char* name_;
};

unsigned member_count(hid_t type, const Hdf5Calls& calls, const std::string& path)
    H5FEED_REQUIRES(hdf5_mutex) {
  return static_cast<unsigned>(calls.done(H5Tget_nmembers(type), path, kNoType));
}

ScopedId compound(hid_t type, const Hdf5Calls& calls, const std::string& path) H5FEED_REQUIRES(hdf5_mutex) {
  ScopedId made = calls.id(H5Tcreate(H5T_COMPOUND, H5Tget_size(type)), path, kNotMade);
  const unsigned members = member_count(type, calls, path);
  for (unsigned i = 0; i < members; ++i) {
    const ScopedId member = oldest_form(member_type(type, i, calls, path).get(), calls, path);
    const MemberName name(type, i, calls, path);
    calls.done(H5Tinsert(made.get(), name.text(), H5Tget_member_offset(type, i), member.get()), path,
               kNotMade);
  }
  return made;
}

ScopedId enumeration(hid_t type, const Hdf5Calls& calls, const std::string& path)
    H5FEED_REQUIRES(hdf5_mutex) {
  const ScopedId base = calls.id(H5Tget_super(type), path, kNoType);
  ScopedId made = calls.id(H5Tenum_create(oldest_form(base.get(), calls, path).get()), path, kNotMade);
  const unsigned members = member_count(type, calls, path);
  std::vector<std::byte> value(H5Tget_size(type));
  for (unsigned i = 0; i < members; ++i) {
    const MemberName name(type, i, calls, path);
    calls.done(H5Tget_member_value(type, i, value.data()), path, kNoType);
    calls.done(H5Tenum_insert(made.get(), name.text(), value.data()), path, kNotMade);
  }
  return made;
}

ScopedId array(hid_t type, const Hdf5Calls& calls, const std::string& path) H5FEED_REQUIRES(hdf5_mutex) {
  const ScopedId base = calls.id(H5Tget_super(type), path, kNoType);
  std::array<hsize_t, H5S_MAX_RANK> extent = {};
  const int rank = calls.done(H5Tget_array_dims2(type, extent.data()), path, kNoType);
  return calls.id(H5Tarray_create2(oldest_form(base.get(), calls, path).get(), static_cast<unsigned>(rank),
                                   extent.data()),
                  path, kNotMade);
}

ScopedId sequence(hid_t type, const Hdf5Calls& calls, const std::string& path) H5FEED_REQUIRES(hdf5_mutex) {
  const ScopedId base = calls.id(H5Tget_super(type), path, kNoType);
  return calls.id(H5Tvlen_create(oldest_form(base.get(), calls, path).get()), path, kNotMade);
}

ScopedId text(hid_t type, const Hdf5Calls& calls, const std::string& path) H5FEED_REQUIRES(hdf5_mutex) {
  ScopedId made = calls.id(H5Tcopy(H5T_C_S1), path, kNotMade);
  const bool variable = calls.done(H5Tis_variable_str(type), path, kNoType) > 0;
  calls.done(H5Tset_size(made.get(), variable ? H5T_VARIABLE : H5Tget_size(type)), path, kNotMade);
  calls.done(H5Tset_strpad(made.get(), H5Tget_strpad(type)), path, kNotMade);
  calls.done(H5Tset_cset(made.get(), H5Tget_cset(type)), path, kNotMade);
  return made;
}

}  // namespace

ScopedId oldest_form(hid_t type, const Hdf5Calls& calls, const std::string& path) {
  switch (calls.done(H5Tget_class(type), path, kNoType)) {
    case H5T_COMPOUND:
      return compound(type, calls, path);
    case H5T_ENUM:
      return enumeration(type, calls, path);
    case H5T_ARRAY:
      return array(type, calls, path);
    case H5T_VLEN:
      return sequence(type, calls, path);
    case H5T_STRING:
      return text(type, calls, path);
    // Numbers, opaque bytes and references have no parts with a version of their own that could be raised.
    default:
      return calls.id(H5Tcopy(type), path, kNoType);
  }
}

}  // namespace h5feed
