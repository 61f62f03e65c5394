// SPDX-License-Identifier: Apache-2.0
// What a fuzz target consists of. fuzz_main.cpp connects it with libFuzzer.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

namespace h5feed::test::fuzz {

using Bytes = std::vector<std::byte>;

/// Runs the code under test. Must come back without an exception for any input.
void fuzz_one(std::span<const std::byte> input);

/// Inputs to start from, made by the project's own writers.
std::vector<Bytes> seeds();

/// Ends the program with `message` where a property does not hold, for libFuzzer to keep the input.
inline void require(bool holds, const char* message) {
  if (holds) return;
  std::fprintf(stderr, "property violated: %s\n", message);
  std::abort();
}

/// Takes numbers off the front of an input; zeros once it is used up.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> input) : rest_(input) {}

  unsigned u8() {
    if (rest_.empty()) return 0;
    const unsigned value = std::to_integer<unsigned>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }
  unsigned u16() {
    const unsigned low = u8();
    return low | u8() << 8;
  }
  unsigned u32() {
    const unsigned low = u16();
    return low | u16() << 16;
  }
  std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> rest_;
};

/// The inverse of Reader.
class Writer {
 public:
  Writer& u8(unsigned value) {
    bytes_.push_back(static_cast<std::byte>(value));
    return *this;
  }
  Writer& u16(unsigned value) { return u8(value & 0xff).u8(value >> 8); }
  Writer& u32(unsigned value) { return u16(value & 0xffff).u16(value >> 16); }
  Writer& bytes(std::span<const std::byte> more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    return *this;
  }
  const Bytes& done() const { return bytes_; }

 private:
  Bytes bytes_;
};

}  // namespace h5feed::test::fuzz
