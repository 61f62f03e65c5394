// SPDX-License-Identifier: Apache-2.0
// Values as bytes, for messages between a process and the one that reads metadata for it. The reader trusts
// nothing: the bytes may come from a process that a hostile file has taken over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace h5feed {

/// Thrown for bytes that are no message of the expected kind.
class BadMessage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Names the members of a struct that is sent: specializations have `static auto of(auto& value)`, which
/// returns std::tie of the members. A struct that must fulfil more than its members' types say has `static
/// bool valid(const T&)` as well, which is asked of every struct that was received. Lists of a struct of
/// which any bytes are a value, `static constexpr bool plain = true`, are sent as they are in memory.
template <typename T>
struct WireMembers;

/// Whether lists of `T` are sent as they are in memory.
template <typename T>
concept WirePlain = std::is_same_v<T, std::byte> ||
    (requires { WireMembers<T>::plain; } && std::is_trivially_copyable_v<T>);

/// The last enumerator of an enumeration that is sent; its numbers begin at 0 and leave none out.
template <typename T>
struct WireLast;

/// Appends values to a message.
class WireWriter {
 public:
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      put(static_cast<std::uint8_t>(value));
    } else if constexpr (std::is_enum_v<T>) {
      put(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_integral_v<T>) {
      append(&value, sizeof value);
    } else {
      put_members(value);
    }
  }
  void put(std::string_view text) {
    put(std::uint64_t{text.size()});
    append(text.data(), text.size());
  }
  void put(const std::string& text) { put(std::string_view(text)); }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(std::uint64_t{values.size()});
    if constexpr (WirePlain<T>) {
      append(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) put(value);
    }
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }

  /// Appends bytes without their number.
  void append(std::span<const std::byte> bytes) { append(bytes.data(), bytes.size()); }

  /// Returns the message so far.
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// Returns the message, and leaves this empty.
  std::vector<std::byte> take() noexcept { return std::exchange(bytes_, {}); }

 private:
  template <typename T>
  void put_members(const T& value) {
    std::apply([this](const auto&... members) { (this->put(members), ...); }, WireMembers<T>::of(value));
  }
  void append(const void* data, std::size_t size);

  std::vector<std::byte> bytes_;
};

/// Takes values from a message, in the order in which they were put. Borrows the bytes. Every function throws
/// BadMessage if they do not hold such a value; memory is allocated only for bytes that are there.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  template <typename T>
  T get() {
    T value{};
    read(value);
    return value;
  }

  /// Returns what was not taken, and takes it.
  std::span<const std::byte> rest() noexcept { return std::exchange(bytes_, {}); }

  /// Throws BadMessage unless every byte was taken.
  void finish() const {
    if (!bytes_.empty()) throw BadMessage("bytes behind its end");
  }

 private:
  template <typename T>
  void read(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const auto byte = get<std::uint8_t>();
      if (byte > 1) throw BadMessage("a truth value that is neither");
      value = byte == 1;
    } else if constexpr (std::is_enum_v<T>) {
      const auto number = get<std::underlying_type_t<T>>();
      if (number > static_cast<std::underlying_type_t<T>>(WireLast<T>::value))
        throw BadMessage("a number that stands for nothing");
      value = static_cast<T>(number);
    } else if constexpr (std::is_integral_v<T>) {
      const std::span<const std::byte> bytes = take(sizeof value);
      std::memcpy(&value, bytes.data(), sizeof value);
    } else {
      std::apply([this](auto&... members) { (this->read(members), ...); }, WireMembers<T>::of(value));
      if constexpr (requires { WireMembers<T>::valid(value); }) {
        if (!WireMembers<T>::valid(value)) throw BadMessage("values that contradict each other");
      }
    }
  }
  void read(std::string& text) {
    const std::span<const std::byte> bytes = take(get<std::uint64_t>());
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  template <typename T>
  void read(std::vector<T>& values) {
    const auto count = get<std::uint64_t>();
    // Each value takes a byte at least; the vector grows only as they are found.
    if (count > bytes_.size()) throw BadMessage("more values than it has bytes");
    if constexpr (WirePlain<T>) {
      const std::span<const std::byte> bytes = take(count * sizeof(T));
      values.resize(static_cast<std::size_t>(count));
      if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
      for (std::uint64_t i = 0; i < count; ++i) values.push_back(get<T>());
    }
  }
  template <typename T>
  void read(std::optional<T>& value) {
    if (get<bool>()) value = get<T>();
  }

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size()) throw BadMessage("an end before its time");
    const std::span<const std::byte> taken = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(static_cast<std::size_t>(count));
    return taken;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace h5feed
