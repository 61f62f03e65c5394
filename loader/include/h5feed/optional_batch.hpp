// SPDX-License-Identifier: Apache-2.0
// Result of `DataLoader::next()`: a batch, or no value at the end of an epoch.
#pragma once

#include <optional>
#include <utility>

namespace h5feed {

/// A `std::optional` that owns its batch and does not return references into a temporary. Name the result:
/// `while (auto batch = loader.next())`. On a temporary, `->` does not compile, as a loop over
/// `loader.next()->indices` would read freed memory; `*` and `value()` return the batch by value, which a
/// loop over `loader.next().value().indices` keeps alive.
template <typename B>
class OptionalBatch : public std::optional<B> {
  using Base = std::optional<B>;

 public:
  using Base::Base;

  /// Returns the batch; undefined behaviour without one, as in std::optional.
  B* operator->() & noexcept { return Base::operator->(); }
  /// Returns the batch, read-only; undefined behaviour without one, as in std::optional.
  const B* operator->() const& noexcept { return Base::operator->(); }
  /// Deleted: a temporary would be destroyed before the batch is used. Name the result first.
  const B* operator->() const&& = delete;

  /// Returns the batch; undefined behaviour without one.
  B& operator*() & noexcept { return Base::operator*(); }
  /// Returns the batch, read-only; undefined behaviour without one.
  const B& operator*() const& noexcept { return Base::operator*(); }
  /// Returns the batch of a temporary by value; undefined behaviour without one.
  B operator*() && { return *static_cast<Base&&>(*this); }
  /// Returns a copy of the batch of a temporary; undefined behaviour without one.
  B operator*() const&& { return *static_cast<const Base&>(*this); }

  /// Returns the batch. Throws std::bad_optional_access without a batch.
  B& value() & { return Base::value(); }
  /// Returns the batch, read-only. Throws std::bad_optional_access without a batch.
  const B& value() const& { return Base::value(); }
  /// Returns the batch of a temporary by value. Throws std::bad_optional_access without a batch.
  B value() && { return static_cast<Base&&>(*this).value(); }
  /// Returns a copy of the batch of a temporary. Throws std::bad_optional_access without a batch.
  B value() const&& { return static_cast<const Base&>(*this).value(); }
};

}  // namespace h5feed
