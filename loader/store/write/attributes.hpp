// SPDX-License-Identifier: Apache-2.0
// Attributes: small named values on datasets and groups.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace h5feed {

/// Value of an attribute. Text is stored as UTF-8: a single text as a fixed-length string, a list as
/// variable-length strings.
using AttributeValue = std::variant<std::string, std::vector<std::string>, double, std::vector<double>>;

/// An attribute's name and value.
struct NamedAttribute {
  std::string name;
  AttributeValue value;
};

/// Returns what to do about a file that cannot be opened for writing; `error` is the errno.
std::string_view cure_for_unwritable(int error) noexcept;

/// Writes attributes of one dataset or group of an existing file in place, replacing those of the same names.
/// No other handle of this process may have the file open. Takes libhdf5's file lock, which excludes other
/// writers. Blocks. Throws FileError; if storage is full, before anything is changed.
void update_attributes(const std::filesystem::path& file, const std::string& object,
                       const std::vector<NamedAttribute>& attributes);

/// Returns the name of the first of `attributes` that the dataset `object` has with another type, shape or
/// values; empty if there is none. Lists of numbers are equal if they differ by rounding only, and NaN equals
/// NaN; attributes of other types are never equal. Takes libhdf5's file lock. Blocks. Throws FileError.
std::optional<std::string> differing_attribute(const std::filesystem::path& file, const std::string& object,
                                               const std::vector<NamedAttribute>& attributes);

/// Returns the text of a fixed-length string attribute of the group `object`; empty if the file or group
/// cannot be opened or there is no such attribute. Takes no file lock. Blocks.
std::optional<std::string> text_attribute(const std::filesystem::path& file, const std::string& object,
                                          const std::string& name);

}  // namespace h5feed
