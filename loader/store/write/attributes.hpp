// SPDX-License-Identifier: Apache-2.0
// Attributes: small named values on datasets and groups.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace h5feed {

/// Text is stored as UTF-8: one as a string of fixed length, a list as strings of variable length.
using AttributeValue = std::variant<std::string, std::vector<std::string>, double, std::vector<double>>;

struct NamedAttribute {
  std::string name;
  AttributeValue value;
};

/// Writes attributes of one dataset or group of an existing file, in place; those of the same names are
/// replaced. No other handle of this process may have the file open. Takes libhdf5's file lock, so that two
/// writers cannot meet. Blocks. Throws FileError, before anything is changed where the storage has no room.
void update_attributes(const std::filesystem::path& file, const std::string& object,
                       const std::vector<NamedAttribute>& attributes);

/// The text in an attribute of a group; empty where the file cannot be opened or has none such. Blocks.
std::optional<std::string> text_attribute(const std::filesystem::path& file, const std::string& object,
                                          const std::string& name);

}  // namespace h5feed
