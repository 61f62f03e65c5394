// SPDX-License-Identifier: Apache-2.0
// Random decisions of one run: the same seed makes the same ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace h5feed::test {

/// A random generator. For one thread.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  /// Returns a number from `lowest` to `highest`.
  std::int64_t number(std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random_);
  }
  /// Returns true with a probability of 1 / `times`.
  bool one_in(std::int64_t times) { return number(1, times) == 1; }
  /// Returns one of the values.
  template <typename T>
  T any(std::initializer_list<T> values) {
    return *(values.begin() + number(0, static_cast<std::int64_t>(values.size()) - 1));
  }
  /// Returns a seed for a generator of its own, for example of another thread.
  std::uint64_t seed() { return random_(); }
  /// Returns `count` different numbers below `end`, in random order; all of them if there are fewer.
  std::vector<std::int64_t> different(std::int64_t count, std::int64_t end) {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(end));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
    std::shuffle(numbers.begin(), numbers.end(), random_);
    if (count < end) numbers.resize(static_cast<std::size_t>(count));
    return numbers;
  }

 private:
  std::mt19937_64 random_;
};

/// Thrown if a run delivers other samples or values than the oracle expects.
class Mismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown by the functions of the user that a run plants.
class Planted : public std::runtime_error {
 public:
  Planted() : std::runtime_error("planted by the test") {}
};

/// Throws a Mismatch unless `holds`.
inline void expect(bool holds, const std::string& otherwise) {
  if (!holds) throw Mismatch(otherwise);
}

}  // namespace h5feed::test
