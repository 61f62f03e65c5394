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

  /// Returns the batch; undefined behaviour without one. A temporary returns its batch by value.
  B& operator*() & noexcept { return Base::operator*(); }
  const B& operator*() const& noexcept { return Base::operator*(); }
  B operator*() && { return *static_cast<Base&&>(*this); }
  B operator*() const&& { return *static_cast<const Base&>(*this); }

  /// Returns the batch; a temporary returns it by value. Throws std::bad_optional_access without a batch.
  B& value() & { return Base::value(); }
  const B& value() const& { return Base::value(); }
  B value() && { return static_cast<Base&&>(*this).value(); }
  B value() const&& { return static_cast<const Base&>(*this).value(); }
};

}  // namespace h5feed
