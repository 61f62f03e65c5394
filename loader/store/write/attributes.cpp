// SPDX-License-Identifier: Apache-2.0
#include "store/write/attributes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <system_error>

#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/hdf5_session.hpp"
#include "store/write/attribute_write.hpp"
#include "store/write/staged_file.hpp"

namespace h5feed {
namespace {

H5::StrType text_type(std::size_t bytes) {
  H5::StrType type(H5::PredType::C_S1, bytes);
  type.setCset(H5T_CSET_UTF8);
  return type;
}

struct Put {
  const H5::H5Object& object;
  const std::string& name;

  H5::Attribute create(const H5::DataType& type, const H5::DataSpace& space) const {
    if (object.attrExists(name)) object.removeAttr(name);
    return object.createAttribute(name, type, space);
  }
  static H5::DataSpace list_of(std::size_t count) {
    const auto extent = static_cast<hsize_t>(count);
    return H5::DataSpace(1, &extent);
  }

  void operator()(const std::string& value) const {
    const H5::StrType type = text_type(value.size() + 1);
    create(type, H5::DataSpace()).write(type, value.c_str());
  }
  void operator()(const std::vector<std::string>& values) const {
    const H5::StrType type = text_type(H5T_VARIABLE);
    std::vector<const char*> texts;
    for (const std::string& value : values) texts.push_back(value.c_str());
    create(type, list_of(values.size())).write(type, texts.data());
  }
  void operator()(double value) const {
    create(H5::PredType::IEEE_F64LE, H5::DataSpace()).write(H5::PredType::NATIVE_DOUBLE, &value);
  }
  void operator()(const std::vector<double>& values) const {
    create(H5::PredType::IEEE_F64LE, list_of(values.size()))
        .write(H5::PredType::NATIVE_DOUBLE, values.data());
  }
};

// Sums in another order differ by rounding.
bool equal_figures(double one, double other) {
  constexpr double kRounding = 1e-9;
  if (std::isnan(one) || std::isnan(other)) return std::isnan(one) && std::isnan(other);
  return one == other || std::abs(one - other) <= kRounding * std::max(std::abs(one), std::abs(other));
}

bool holds(const H5::Attribute& attribute, const std::vector<double>& values) {
  if (!(attribute.getDataType() == H5::PredType::IEEE_F64LE)) return false;
  const H5::DataSpace space = attribute.getSpace();
  if (!space.isSimple() || space.getSimpleExtentNdims() != 1 ||
      static_cast<std::size_t>(space.getSimpleExtentNpoints()) != values.size()) {
    return false;
  }
  std::vector<double> stored(values.size());
  attribute.read(H5::PredType::NATIVE_DOUBLE, stored.data());
  return std::ranges::equal(stored, values, equal_figures);
}

}  // namespace

std::string_view cure_for_unwritable(int error) noexcept {
  // No mode and no owner makes a read-only file system writable.
  return error == EROFS ? "copy the file to a place that can be written" : "check its mode and owner";
}

namespace {

// Claims space after the end of a file for what libhdf5 adds to it: an update that runs out of space halfway
// would leave a damaged file.
class RoomBehind {
 public:
  explicit RoomBehind(const std::filesystem::path& file)
      : fd_(::open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (!fd_.valid()) {
      const int error = errno;
      throw FileError(fmt::format("{}: cannot be written ({}); {}", file.string(),
                                  std::generic_category().message(error), cure_for_unwritable(error)));
    }
    if (const int error = claim_storage(fd_.get(), size(), kMetadataRoomBytes); error != 0)
      throw_full(file, kMetadataRoomBytes, error);
  }
  RoomBehind(const RoomBehind&) = delete;
  RoomBehind& operator=(const RoomBehind&) = delete;

  // Releases the unused space while libhdf5's lock keeps other writers away. If that fails, the space merely
  // stays allocated.
  void give_back() const noexcept {
    if (::ftruncate(fd_.get(), static_cast<off_t>(size())) != 0) return;
  }

 private:
  std::uint64_t size() const noexcept {
    struct stat status = {};
    return ::fstat(fd_.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  }

  const FileDescriptor fd_;
};

}  // namespace

void put_attribute(const H5::H5File& file, const std::string& object, const NamedAttribute& attribute) {
  if (object == "/" || file.childObjType(object) == H5O_TYPE_GROUP) {
    const H5::Group group = file.openGroup(object);
    std::visit(Put{group, attribute.name}, attribute.value);
  } else {
    const H5::DataSet dataset = file.openDataSet(object);
    std::visit(Put{dataset, attribute.name}, attribute.value);
  }
}

void update_attributes(const std::filesystem::path& file, const std::string& object,
                       const std::vector<NamedAttribute>& attributes) {
  const RoomBehind room(file);
  const Hdf5Session session;
  try {
    H5::H5File opened(file.string(), H5F_ACC_RDWR);
    for (const NamedAttribute& attribute : attributes) put_attribute(opened, object, attribute);
    if (H5Fflush(opened.getId(), H5F_SCOPE_LOCAL) < 0) throw H5::FileIException("H5Fflush", "failed");
    room.give_back();
  } catch (const H5::Exception&) {
    throw FileError(
        fmt::format("{}:{}: its attributes cannot be written ({}); check that the file may be "
                    "written and that nobody else has it open",
                    file.string(), object, session.error()));
  }
}

std::optional<std::string> differing_attribute(const std::filesystem::path& file, const std::string& object,
                                               const std::vector<NamedAttribute>& attributes) {
  const Hdf5Session session;
  try {
    const H5::H5File opened(file.string(), H5F_ACC_RDONLY);
    const H5::DataSet dataset = opened.openDataSet(object);
    for (const NamedAttribute& attribute : attributes) {
      if (!dataset.attrExists(attribute.name)) continue;
      const auto* const values = std::get_if<std::vector<double>>(&attribute.value);
      if (values == nullptr || !holds(dataset.openAttribute(attribute.name), *values)) return attribute.name;
    }
    return std::nullopt;
  } catch (const H5::Exception&) {
    throw FileError(fmt::format("{}:{}: its attributes cannot be read ({}); check the file with h5feed check",
                                file.string(), object, session.error()));
  }
}

std::optional<std::string> text_attribute(const std::filesystem::path& file, const std::string& object,
                                          const std::string& name) {
  const Hdf5Session session;
  try {
    const H5::FileAccPropList access;
    H5Pset_file_locking(access.getId(), false, true);
    const H5::H5File opened(file.string(), H5F_ACC_RDONLY, H5::FileCreatPropList::DEFAULT, access);
    const H5::Group group = opened.openGroup(object);
    if (!group.attrExists(name)) return std::nullopt;
    const H5::Attribute attribute = group.openAttribute(name);
    const H5::StrType type = attribute.getStrType();
    if (type.isVariableStr()) return std::nullopt;
    std::string text;
    attribute.read(type, text);
    return text.c_str();
  } catch (const H5::Exception&) {
    return std::nullopt;
  }
}

}  // namespace h5feed
