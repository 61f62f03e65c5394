// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), computed by OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace h5feed::cli {

/// Incremental SHA-256. For one thread at a time.
class Sha256 {
 public:
  /// Throws Error if OpenSSL offers no SHA-256.
  Sha256();

  /// Appends `bytes` to the input.
  void update(std::span<const std::byte> bytes);

  /// Returns the digest of all input. Must be the last call on this object.
  std::array<std::byte, 32> digest();

  /// Returns the digest of all input as 64 lower-case hexadecimal digits. Must be the last call on this
  /// object.
  std::string finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace h5feed::cli
