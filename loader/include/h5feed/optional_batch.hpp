// SPDX-License-Identifier: Apache-2.0
// What `next()` returns: a batch, or nothing at the end of an epoch.
#pragma once

#include <optional>
#include <utility>

namespace h5feed {

/// A `std::optional` that owns its batch and does not lend it while it is a temporary. Name the result to
/// look at it: `while (auto batch = loader.next())`. On the result of `next()` itself `->` does not compile,
/// since a loop over `loader.next()->indices` would read memory that is freed before its first step; `*` and
/// `value()` return the batch by value there, which a loop over `loader.next().value().indices` keeps.
template <typename B>
class OptionalBatch : public std::optional<B> {
  using Base = std::optional<B>;

 public:
  using Base::Base;

  /// Undefined behaviour where there is no batch, as in std::optional.
  B* operator->() & noexcept { return Base::operator->(); }
  const B* operator->() const& noexcept { return Base::operator->(); }
  const B* operator->() const&& = delete;

  /// Undefined behaviour where there is no batch. A temporary returns its batch by value.
  B& operator*() & noexcept { return Base::operator*(); }
  const B& operator*() const& noexcept { return Base::operator*(); }
  B operator*() && { return *static_cast<Base&&>(*this); }
  B operator*() const&& { return *static_cast<const Base&>(*this); }

  /// Throws std::bad_optional_access where there is no batch.
  B& value() & { return Base::value(); }
  const B& value() const& { return Base::value(); }
  B value() && { return static_cast<Base&&>(*this).value(); }
  B value() const&& { return static_cast<const Base&>(*this).value(); }
};

}  // namespace h5feed
