// SPDX-License-Identifier: Apache-2.0
#include "store/format/object_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <set>
#include <string_view>

#include "store/format/byte_order.hpp"

namespace h5feed {
namespace {

constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kMostMessages = std::uint64_t{1} << 18;
// Prefix and messages of most objects.
constexpr std::size_t kFirstRead = 512;

// A run of messages: the first is in the header itself, the others where a continuation message says.
struct Run {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

bool can_be_shared(unsigned type) noexcept {
  switch (type) {
    case HeaderMessage::dataspace:
    case HeaderMessage::datatype:
    case HeaderMessage::old_fill_value:
    case HeaderMessage::fill_value:
    case HeaderMessage::filters:
    case HeaderMessage::attribute:
      return true;
    default:
      return false;
  }
}

// Empty places in a header, and messages of unknown types, need not be kept.
bool looked_at(unsigned type) noexcept { return type != 0 && type <= HeaderMessage::image; }

class HeaderWalk {
 public:
  HeaderWalk(const MetadataBytes& bytes, std::uint64_t address) : bytes_(bytes), address_(address) {}

  ObjectHeader run() {
    const std::vector<std::byte> prefix = bytes_.read(address_, kFirstRead);
    if (begins_with(prefix, "OHDR")) {
      new_prefix(prefix);
    } else if (prefix.size() >= kOldPrefix && prefix.front() == std::byte{1}) {
      pending_.push_back({address_ + kOldPrefix, little_endian(std::span(prefix).subspan(8, 4))});
    }
    while (!pending_.empty() && header_.damage.empty()) {
      const Run next = pending_.front();
      pending_.pop_front();
      read_run(next);
    }
    return std::move(header_);
  }

 private:
  // Version 1: version, reserved, number of messages, references, size of the first run, padding.
  static constexpr std::size_t kOldPrefix = 16;

  void damage(std::string what, bool hazardous) {
    header_.damage = std::move(what);
    header_.hazardous = hazardous;
  }

  // Version 2: signature, version, flags, optional times and limits of attributes, size of the first run.
  void new_prefix(std::span<const std::byte> prefix) {
    if (prefix.size() < 6) return;
    const auto flags = std::to_integer<unsigned>(prefix[5]);
    const std::size_t size_at =
        std::size_t{6} + ((flags & 0x20U) != 0 ? 16U : 0U) + ((flags & 0x10U) != 0 ? 4U : 0U);
    const std::size_t size_bytes = std::size_t{1} << (flags & 3U);
    if (size_at + size_bytes > prefix.size()) return;
    new_format_ = true;
    ordered_ = (flags & 4U) != 0;
    pending_.push_back({address_ + size_at + size_bytes, little_endian(prefix.subspan(size_at, size_bytes))});
  }

  void read_run(const Run& run) {
    if (!runs_.insert(run.address).second) {
      damage(fmt::format("the object header at byte {} continues in itself", address_), true);
      return;
    }
    if (run.bytes > bytes_.left(run.address)) {
      damage(fmt::format("the object header at byte {} has {} bytes from byte {} on, more than the file",
                         address_, run.bytes, run.address),
             run.bytes > kMostHeaderBytes);
      return;
    }
    total_ += run.bytes;
    if (total_ > kMostHeaderBytes) {
      damage(fmt::format("the object header at byte {} has more than {} bytes, which h5feed does not examine",
                         address_, kMostHeaderBytes),
             true);
      return;
    }
    const std::vector<std::byte> bytes = bytes_.read(run.address, static_cast<std::size_t>(run.bytes));
    const std::span<const std::byte> all(bytes);
    // A run of the new format ends with a gap that no message fits in.
    const std::size_t head = new_format_ ? (ordered_ ? 6 : 4) : 8;
    std::size_t at = 0;
    while (bytes.size() - at >= head) {
      const std::span<const std::byte> message = all.subspan(at);
      HeaderMessage read;
      read.type = static_cast<unsigned>(little_endian(message.first(new_format_ ? 1 : 2)));
      const auto size = static_cast<std::size_t>(little_endian(message.subspan(new_format_ ? 1 : 2, 2)));
      read.shared =
          (std::to_integer<unsigned>(message[new_format_ ? 3 : 4]) & 2U) != 0 && can_be_shared(read.type);
      if (size > message.size() - head) {
        damage(fmt::format("the object header at byte {} has a message of {} bytes where {} are left",
                           address_, size, message.size() - head),
               false);
        return;
      }
      at += head + size;
      if (++count_ > kMostMessages) {
        damage(fmt::format("the object header at byte {} has more than {} messages, which h5feed does not "
                           "examine",
                           address_, kMostMessages),
               true);
        return;
      }
      if (!looked_at(read.type)) continue;
      const std::span<const std::byte> body = message.subspan(head, size);
      read.body.assign(body.begin(), body.end());
      if (read.type == HeaderMessage::continuation) follow(body);
      header_.messages.push_back(std::move(read));
    }
  }

  void follow(std::span<const std::byte> body) {
    if (body.size() < bytes_.address_bytes() + bytes_.length_bytes()) {
      damage(fmt::format("the object header at byte {} continues in {} bytes, too few for an address",
                         address_, body.size()),
             true);
      return;
    }
    Run run{bytes_.address_in(body, 0),
            little_endian(body.subspan(bytes_.address_bytes(), bytes_.length_bytes()))};
    if (new_format_) {  // A signature before the messages, a checksum after them
      // libhdf5 asks for as much memory as the continuation claims before it looks for it in the file.
      if (run.bytes < 8 || bytes_.left(run.address) < 8) {
        damage(
            fmt::format("the object header at byte {} continues with {} bytes at byte {}, outside the file",
                        address_, run.bytes, run.address),
            run.bytes > kMostHeaderBytes);
        return;
      }
      run.address += 4;
      run.bytes -= 8;
    }
    pending_.push_back(run);
  }

  const MetadataBytes& bytes_;
  const std::uint64_t address_;
  bool new_format_ = false;
  bool ordered_ = false;  // Messages have a number of their creation
  std::deque<Run> pending_;
  std::set<std::uint64_t> runs_;
  std::uint64_t total_ = 0;
  std::uint64_t count_ = 0;  // Of messages, also those that are not kept
  ObjectHeader header_;
};

}  // namespace

bool begins_with(std::span<const std::byte> bytes, std::string_view text) noexcept {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

std::uint64_t number_in(std::span<const std::byte> bytes, std::size_t at, std::size_t count) noexcept {
  return at + count <= bytes.size() ? little_endian(bytes.subspan(at, count)) : 0;
}

std::uint64_t MetadataBytes::left(std::uint64_t address) const noexcept {
  if (address == undefined_address(block_.address_bytes)) return 0;
  const std::uint64_t bytes = source_.size() - std::min(source_.size(), block_.user_block_bytes);
  return bytes - std::min(bytes, address);
}

std::vector<std::byte> MetadataBytes::read(std::uint64_t address, std::size_t count) const {
  std::vector<std::byte> out(static_cast<std::size_t>(std::min<std::uint64_t>(count, left(address))));
  if (!out.empty()) source_.read(block_.user_block_bytes + address, out);
  return out;
}

std::vector<std::byte> MetadataBytes::head(std::uint64_t address, std::string_view signature,
                                           std::size_t count) const {
  std::vector<std::byte> head = read(address, count);
  if (head.size() < count || !begins_with(head, signature)) head.clear();
  return head;
}

std::uint64_t MetadataBytes::address_in(std::span<const std::byte> bytes, std::size_t at) const noexcept {
  if (at > bytes.size() || bytes.size() - at < block_.address_bytes)
    return undefined_address(block_.address_bytes);
  return little_endian(bytes.subspan(at, block_.address_bytes));
}

ObjectHeader read_object_header(const MetadataBytes& bytes, std::uint64_t address) {
  return HeaderWalk(bytes, address).run();
}

}  // namespace h5feed
