// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/option_spelling.hpp"
#include "base/terminal_text.hpp"
#include "dataset/dataset_state.hpp"
#include "dataset/field_opener.hpp"
#include "h5feed/error.hpp"
#include "h5feed/mixture.hpp"
#include "plan/mixture.hpp"
#include "store/read/joined_reader.hpp"

namespace h5feed {
namespace {

using States = std::vector<std::shared_ptr<const DatasetState>>;

// Something that the sets of a mixture must have in common.
struct Trait {
  std::string name;
  std::string text;
};

std::string text_of(const Field& field) {
  const DatasetInfo& info = field.info();
  return fmt::format("{} {}{}", format_shape({info.shape.begin() + 1, info.shape.end()}), name_of(info.dtype),
                     field.geometry.channels_last ? " with channels last" : "");
}

std::string text_of(const NamedField& field) {
  const FieldOptions& options = field.options;
  std::string text =
      field.rows ? text_of(*field.rows)
                 : fmt::format("samples of any length, {} {}", format_shape(field.ragged->element_shape()),
                               name_of(field.ragged->dtype()));
  text += fmt::format(", delivered as {}", name_of(field.dtype()));
  if (options.collate == Collate::pad) text += ", padded";
  if (options.normalize) {
    text +=
        fmt::format(", normalized with mean {} and std {}", options.normalize->mean, options.normalize->std);
    if (options.normalize->scale) text += fmt::format(" and scale {}", *options.normalize->scale);
  }
  return text;
}

std::string text_of(const std::vector<std::string>& categories) {
  return categories.empty() ? "none" : fmt::format("{}", fmt::join(categories, ", "));
}

std::vector<Trait> traits_of(const DatasetState& set) {
  std::vector<Trait> traits;
  const auto& shape = set.data.geometry.shape;
  traits.push_back(
      {"samples", fmt::format("{}, delivered as {}", text_of(set.data),
                              shape.empty() ? "scalar" : fmt::to_string(fmt::join(shape, "×")))});
  traits.push_back({"unit_range", set.options.unit_range ? "true" : "false"});
  traits.push_back({"targets", set.target ? text_of(*set.target) : "none"});
  std::vector<std::string> names;
  for (const NamedField& field : set.fields) names.push_back(field.options.name);
  traits.push_back({"fields", names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))});
  for (const NamedField& field : set.fields)
    traits.push_back({fmt::format("field \"{}\"", field.options.name), text_of(field)});
  traits.push_back({"categories of the target", text_of(set.target_names)});
  for (const NamedField& field : set.fields)
    traits.push_back({fmt::format("categories of field \"{}\"", field.options.name), text_of(field.names)});
  return traits;
}

std::string place_of(const DatasetState& set) {
  return fmt::format("{}:{}", set.file, short_path(set.data.info().path));
}

void check_match(const States& sets) {
  const std::vector<Trait> first = traits_of(*sets.front());
  for (std::size_t i = 1; i < sets.size(); ++i) {
    const std::vector<Trait> own = traits_of(*sets[i]);
    // The lists have the same order; different numbers of fields differ in "fields" already.
    const auto [a, b] = std::ranges::mismatch(first, own, {}, &Trait::text, &Trait::text);
    if (a == first.end() && b == own.end()) continue;
    throw DatasetError(
        fmt::format("mix(): set 0, {}, has {}: {}; set {}, {}, has {}: {}; the sets of a mixture need the "
                    "same; open them "
                    "alike, or convert one",
                    place_of(*sets.front()), a->name, a->text, i, place_of(*sets[i]), b->name, b->text));
  }
}

// Calls `of_set` with each set and returns the results.
template <typename OfSet>
auto each(const States& sets, const OfSet& of_set) {
  std::vector<decltype(of_set(*sets.front()))> all;
  all.reserve(sets.size());
  for (const auto& set : sets) all.push_back(of_set(*set));
  return all;
}

// Joins the rows of a field of all sets. Small fields stay in memory.
Field joined(const std::vector<const Field*>& fields) {
  std::vector<JoinedPart> parts;
  bool resident = true;
  std::uint64_t bytes = 0;
  for (const Field* const field : fields) {
    parts.push_back({field->reader, 0, field->info().rows()});
    resident = resident && field->is_resident();
    bytes += field->resident.size();
  }
  const DatasetInfo& first = fields.front()->info();
  std::string name = first.file;
  if (fields.size() > 1) {
    name +=
        fmt::format(" and {} more {}", format_count(fields.size() - 1), fields.size() == 2 ? "set" : "sets");
  }
  FieldOpener::Found found;
  found.parts = flattened(std::move(parts));
  found.whole = joined_info(found.parts, std::move(name), first.path);
  Field field(found.joined(), fields.front()->geometry);
  if (!resident || bytes == 0 || bytes > kResidentFieldBytes) return field;
  field.resident = ByteBuffer(static_cast<std::size_t>(bytes));
  std::byte* to = field.resident.data();
  for (const Field* const part : fields) {
    std::memcpy(to, part->resident.data(), part->resident.size());
    to += part->resident.size();
  }
  return field;
}

NamedField joined_named(const States& sets, std::size_t number) {
  const NamedField& first = sets.front()->fields[number];
  NamedField field{.options = first.options, .rows = {}, .ragged = {}, .names = first.names};
  if (first.rows) {
    field.rows = joined(each(sets, [&](const DatasetState& set) { return &*set.fields[number].rows; }));
    return field;
  }
  std::vector<std::shared_ptr<const RaggedPart>> parts;
  for (const auto& set : sets) {
    const auto& own = set->fields[number].ragged->parts();
    parts.insert(parts.end(), own.begin(), own.end());
  }
  field.ragged = std::make_shared<const RaggedField>(std::move(parts));
  return field;
}

MixtureEnd end_of(const EpochSize& size) {
  switch (size.kind()) {
    case EpochSize::Kind::shortest:
      return {.kind = MixtureEnd::Kind::shortest};
    case EpochSize::Kind::longest:
      return {.kind = MixtureEnd::Kind::longest};
    case EpochSize::Kind::samples:
      break;
  }
  return {.kind = MixtureEnd::Kind::samples, .samples = static_cast<std::uint64_t>(size.samples())};
}

// Returns the samples that take part, numbered over all sets; null if all do.
std::shared_ptr<const SampleSubset> chosen_of(const Mixture& mixture) {
  const auto& sets = mixture.sets();
  if (std::ranges::none_of(sets, [](const MixtureSet& set) { return set.subset != nullptr; })) return {};
  std::vector<std::uint64_t> samples;
  for (const MixtureSet& set : sets) {
    for (std::uint64_t place = 0; place < set.size(); ++place)
      samples.push_back(set.first_sample + (set.subset ? set.subset->given(place) : place));
  }
  return std::make_shared<const SampleSubset>(std::move(samples));
}

std::shared_ptr<const Mixture> mixture_of(std::span<const MixedSet> sets, const MixOptions& options) {
  std::vector<double> weights;
  for (const MixedSet& set : sets) weights.push_back(set.weight);
  const std::vector<std::uint64_t> quotas = mixture_quotas(weights);
  std::vector<MixtureSet> parts;
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const RowLayout& layout = DatasetAccess::state(sets[i].dataset)->data.map.rows();
    parts.push_back({.first_sample = first,
                     .layout = layout,
                     .subset = DatasetAccess::chosen(sets[i].dataset),
                     .quota = quotas[i],
                     .shuffle = sets[i].shuffle});
    first += layout.num_rows();
  }
  auto mixture = std::make_shared<const Mixture>(std::move(parts), end_of(options.epoch_size));
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::uint64_t chunks = mixture->chunks()[i];
    if (!sets[i].shuffle || sets[i].shuffle->window_chunks() <= chunks) continue;
    throw OptionError(fmt::format(
        "mix(): the shuffle of set {} is \"{}\", and the set has {} {}; use "
        "\"chunk:{}\" or less, or \"full\"",
        i, sets[i].shuffle->to_string(), format_count(chunks), chunks == 1 ? "chunk" : "chunks", chunks));
  }
  return mixture;
}

}  // namespace

EpochSize::EpochSize(std::string_view text) {
  if (text == "shortest") return;
  if (text != "longest") {
    throw OptionError(
        fmt::format("{} \"{}\" is not known; use \"shortest\", \"longest\", or a number of samples",
                    spelled("epoch_size"), abridged(text)));
  }
  kind_ = Kind::longest;
}

void EpochSize::refuse_samples() {
  throw OptionError(fmt::format("{} must be at least 1 and below 2^63; or use \"shortest\" or \"longest\"",
                                spelled("epoch_size")));
}

Dataset mix(std::span<const MixedSet> sets, const MixOptions& options) {
  if (sets.empty()) throw OptionError("mix() needs at least one set; the list is empty");
  if (sets.size() > kMixtureBlock) {
    throw OptionError(
        fmt::format("mix() takes at most {} sets; got {}; join sets of equal weight by the "
                    "files of one dataset",
                    kMixtureBlock, sets.size()));
  }
  States states;
  for (const MixedSet& set : sets) {
    states.push_back(DatasetAccess::state(set.dataset));
    if (states.back()->mixture)
      throw OptionError(fmt::format("mix(): set {} is a mixture; list its sets instead", states.size() - 1));
    if (states.back()->tiling) {
      throw OptionError(
          fmt::format("mix(): set {} is cut into tiles, and mixtures of tiles are not supported; open the "
                      "files of all sets "
                      "as one dataset",
                      states.size() - 1));
    }
    if (states.back()->sparse) {
      throw OptionError(
          fmt::format("mix(): set {} holds rows of a sparse matrix, and mixtures of these are not supported; "
                      "open the files of all sets as one dataset",
                      states.size() - 1));
    }
    if (states.back()->episodes) {
      throw OptionError(fmt::format(
          "mix(): set {} has windows or episodes, and mixtures of these are not supported; open the "
          "files of all sets as one dataset",
          states.size() - 1));
    }
  }
  const auto mixture = mixture_of(sets, options);
  check_match(states);
  const DatasetState& first = *states.front();
  DatasetState state{.options = first.options,
                     .file = first.file,
                     .data = joined(each(states, [](const DatasetState& set) { return &set.data; })),
                     .target = {},
                     .fields = {},
                     .tiling = {},
                     .target_names = first.target_names};
  if (first.target) state.target = joined(each(states, [](const DatasetState& set) { return &*set.target; }));
  for (std::size_t number = 0; number < first.fields.size(); ++number)
    state.fields.push_back(joined_named(states, number));
  for (const auto& set : states) {
    if (!state.remote) state.remote = set->remote;
  }
  state.mixed = {sets.begin(), sets.end()};
  state.mix_options = options;
  state.mixture = mixture;
  state.sample_shape = state.data.sample_shape();
  return DatasetAccess::make(std::make_shared<const DatasetState>(std::move(state)), chosen_of(*mixture));
}

Dataset opened_again(const DatasetState& mixture) {
  std::vector<MixedSet> sets = mixture.mixed;
  for (MixedSet& set : sets) set.dataset.refresh();
  return mix(sets, mixture.mix_options);
}

}  // namespace h5feed
