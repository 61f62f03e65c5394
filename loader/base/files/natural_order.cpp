// SPDX-License-Identifier: Apache-2.0
#include "base/files/natural_order.hpp"

#include <algorithm>
#include <cstddef>

namespace h5feed {
namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// Removes the leading run of digits from `text` and returns it without leading zeros.
std::string_view take_digits(std::string_view& text) noexcept {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) noexcept {
  std::string_view rest_a = a;
  std::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    if (is_digit(rest_a.front()) && is_digit(rest_b.front())) {
      const std::string_view number_a = take_digits(rest_a);
      const std::string_view number_b = take_digits(rest_b);
      if (number_a.size() != number_b.size()) return number_a.size() < number_b.size();
      if (number_a != number_b) return number_a < number_b;
      continue;
    }
    if (rest_a.front() != rest_b.front()) return rest_a.front() < rest_b.front();
    rest_a.remove_prefix(1);
    rest_b.remove_prefix(1);
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  return a < b;  // they differ in leading zeros, if at all
}

bool has_wildcard(std::string_view text) noexcept {
  return text.find_first_of("*?[") != std::string_view::npos;
}

}  // namespace h5feed
