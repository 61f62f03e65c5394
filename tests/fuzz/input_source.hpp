// SPDX-License-Identifier: Apache-2.0
// An input as the file that is read.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "fuzz/fuzz_target.hpp"
#include "store/format/byte_source.hpp"

namespace h5feed::test::fuzz {

/// A source of exactly the input's bytes, which ends the program at a read beyond them. Borrows the bytes.
class InputSource final : public ByteSource {
 public:
  explicit InputSource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    require(offset <= bytes_.size() && out.size() <= bytes_.size() - offset, "a read stays in the file");
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  std::uint64_t size() const noexcept override { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace h5feed::test::fuzz
