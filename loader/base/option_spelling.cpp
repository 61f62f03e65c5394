// SPDX-License-Identifier: Apache-2.0
#include "base/option_spelling.hpp"

#include <fmt/format.h>

#include <atomic>

namespace h5feed {
namespace {

std::atomic<OptionSpelling> process_spelling = nullptr;

std::optional<std::string> spelled_by_process(std::string_view name) {
  const OptionSpelling spelling = process_spelling.load();
  return spelling == nullptr ? std::nullopt : spelling(name);
}

}  // namespace

void spell_options(OptionSpelling spelling) noexcept { process_spelling.store(spelling); }

bool can_be_set(std::string_view name) {
  const OptionSpelling spelling = process_spelling.load();
  return spelling == nullptr || spelling(name).has_value();
}

std::string spelled(std::string_view name) { return spelled_by_process(name).value_or(std::string(name)); }

std::string spelled(std::string_view name, std::string_view value) {
  const std::optional<std::string> option = spelled_by_process(name);
  return option ? fmt::format("{} {}", *option, value) : fmt::format("{} = {}", name, value);
}

std::string PathOption::spelled(std::string_view path) const {
  if (!owner.empty()) return fmt::format("{}: .{} = \"{}\"", owner, name, path);
  const std::optional<std::string> option = typed ? typed : spelled_by_process(name);
  return option ? fmt::format("{} {}", *option, path) : fmt::format(".{} = \"{}\"", name, path);
}

PathOption PathOption::as_typed() const { return {name, owner, typed ? typed : spelled_by_process(name)}; }

}  // namespace h5feed
