// SPDX-License-Identifier: Apache-2.0
#include "tools/program/sha256.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <cstring>

#include "h5feed/error.hpp"

namespace h5feed::cli {
namespace {

void require(int status) {
  if (status != 1)
    throw Error("OpenSSL cannot compute SHA-256; check its configuration (openssl dgst -sha256)");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const noexcept { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require(context_ ? 1 : 0);
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::array<std::byte, 32> Sha256::digest() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  require(EVP_DigestFinal_ex(context_.get(), bytes.data(), &size));
  std::array<std::byte, 32> digest{};
  std::memcpy(digest.data(), bytes.data(), digest.size());
  return digest;
}

std::string Sha256::finish() {
  std::string text;
  for (const std::byte byte : digest()) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

}  // namespace h5feed::cli
