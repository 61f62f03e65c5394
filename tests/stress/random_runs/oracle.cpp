// SPDX-License-Identifier: Apache-2.0
#include "stress/random_runs/oracle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>

#include "h5feed/error.hpp"
#include "support/loaders/deliveries.hpp"

namespace h5feed::test {
namespace {

void begin(DataLoader& loader, std::uint64_t epoch, const std::optional<LoaderState>& from) {
  from ? loader.restore(*from) : loader.set_epoch(epoch);
}

}  // namespace

std::string name_of_batch(const Batch& batch) {
  return fmt::format("epoch {} batch {} repeat {} [{}]", batch.epoch, batch.number, batch.repeat,
                     fmt::join(batch.indices, " "));
}

std::string name_of_due(const Due& due) {
  return fmt::format("epoch {} batch {} repeat {} [{}] of [{}]", due.epoch, due.number, due.repeat,
                     fmt::join(due.indices, " "), fmt::join(due.planned, " "));
}

Oracle::Oracle(const RandomData& data, const Training& training)
    : data_(data),
      training_(training),
      whole_(data.whole()),
      damaged_(data.damaged()),
      values_loader_(whole_, values_of(training)) {
  const DataLoaderOptions& options = training.options;
  as_stored_ = !training.transforms && !options.normalize && !options.output_dtype && !options.augment &&
               options.output_layout == OutputLayout::nchw;
}

std::vector<Due> Oracle::due(const Size& size, std::int64_t rank, std::uint64_t epoch,
                             const std::optional<LoaderState>& from) const {
  std::vector<Due> due;
  DataLoader plan(whole_, order_of(training_, size, rank));
  begin(plan, epoch, from);
  while (const auto batch = plan.next()) {
    due.push_back({batch->epoch, batch->number, batch->repeat, batch->indices, batch->indices});
  }
  apply_faults(size, rank, epoch, from, due);
  for (Due& each : due) {
    each.throws_planted =
        training_.collate_throws(each.indices) || std::ranges::any_of(each.indices, [&](std::int64_t sample) {
          return training_.transform_throws(each.epoch, sample);
        });
  }
  // A batch that fails is not repeated.
  std::vector<Due> calls;
  for (const Due& each : due) {
    const bool repeats = !calls.empty() && calls.back().throws() && calls.back().number == each.number &&
                         calls.back().epoch == each.epoch && each.repeat > calls.back().repeat;
    if (!repeats) calls.push_back(each);
  }
  return calls;
}

// Bad samples of a plan are left out or replaced as a loader without workers does it, or their batch throws.
void Oracle::apply_faults(const Size& size, std::int64_t rank, std::uint64_t epoch,
                          const std::optional<LoaderState>& from, std::vector<Due>& due) const {
  if (!data_.has_bad()) return;
  const DataLoaderOptions& options = training_.options;
  const auto is_bad = [&](std::int64_t sample) { return data_.is_bad(sample); };
  if (options.on_error == OnError::fail) {
    for (Due& each : due) each.throws_bad = std::ranges::any_of(each.planned, is_bad);
    return;
  }
  DataLoaderOptions alone = order_of(training_, size, rank);
  alone.on_error = options.on_error;
  alone.max_bad_share = options.max_bad_share;
  DataLoader loader(damaged_, alone);
  begin(loader, epoch, from);
  for (std::size_t i = 0; i < due.size(); ++i) {
    Due& each = due[i];
    const bool repeats =
        i > 0 && due[i - 1].throws_bad && due[i - 1].number == each.number && each.repeat > due[i - 1].repeat;
    each.throws_bad = repeats;
    if (repeats) continue;
    try {
      const auto batch = loader.next();
      expect(batch.has_value(), "oracle: the epoch ended before " + name_of_due(each));
      each.indices = batch->indices;
    } catch (const ChunkError&) {
      each.throws_bad = true;
      continue;
    }
    std::vector<std::int64_t> good;
    std::ranges::copy_if(each.planned, std::back_inserter(good), std::not_fn(is_bad));
    if (options.on_error == OnError::skip) {
      expect(each.indices == good, "skip must leave out the bad samples alone: " + name_of_due(each));
      continue;
    }
    bool right = each.indices.size() == each.planned.size();
    for (std::size_t s = 0; right && s < each.planned.size(); ++s)
      right = is_bad(each.planned[s]) ? !is_bad(each.indices[s]) : each.indices[s] == each.planned[s];
    expect(right, "replace must replace the bad samples alone: " + name_of_due(each));
  }
}

void Oracle::prepare(std::uint64_t epoch) {
  if (values_.contains(epoch)) return;
  Values& values = values_[epoch];
  values_loader_.set_epoch(epoch);
  while (const auto batch = values_loader_.next()) {
    dtype_ = batch->data.dtype;
    const auto count = batch->indices.size();
    const std::size_t bytes = bytes_in(batch->data.dtype, batch->data.shape) / count;
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* const begin = batch->data.bytes.get() + i * bytes;
      Value value{.bytes = {begin, begin + bytes}};
      if (!batch->transforms.empty()) value.transform = batch->transforms[i];
      check_bytes(value.bytes.data(), bytes, batch->indices[i], value);
      values[{batch->repeat, batch->indices[i]}] = std::move(value);
    }
  }
  expect(values.size() == data_.chosen().size() * static_cast<std::size_t>(training_.options.echo.factor),
         "oracle: a loader without workers left out samples");
}

void Oracle::check_bytes(const std::byte* bytes, std::size_t count, std::int64_t sample,
                         const Value& value) const {
  const auto differs = [&](const std::vector<std::byte>& right) {
    return count != right.size() || std::memcmp(bytes, right.data(), count) != 0;
  };
  if (as_stored_) {
    const auto stored = data_.stored(sample);
    expect(!stored || !differs(*stored), fmt::format("sample {} differs from the file", sample));
  }
  expect(!differs(value.bytes), fmt::format("sample {} differs from that of no workers", sample));
}

void Oracle::check(const Batch& batch, const Due& due) const {
  expect(batch.epoch == due.epoch && batch.number == due.number && batch.repeat == due.repeat &&
             batch.indices == due.indices,
         "delivered " + name_of_batch(batch) + ", due was " + name_of_due(due));
  try {
    check_values(batch);
    if (data_.has_fields()) check_fields(batch);
    check_origins(batch);
  } catch (const Mismatch& mismatch) {
    throw Mismatch(name_of_batch(batch) + ": " + mismatch.what());
  }
}

void Oracle::check_values(const Batch& batch) const {
  const bool batched = training_.options.batch_size.has_value();
  const Values& values = values_.at(batch.epoch);
  expect(batch.data.dtype == dtype_, "another dtype");
  expect(!batched || batch.data.shape.front() == batch.size(), "shape and indices differ");
  const std::size_t all = bytes_in(batch.data.dtype, batch.data.shape);
  const auto labels = batch.target.as<std::int64_t>();
  expect(labels.size() == batch.indices.size(), "another number of labels");
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    const std::int64_t sample = batch.indices[i];
    const Value& value = values.at({batch.repeat, sample});
    const std::size_t bytes = all / batch.indices.size();
    check_bytes(batch.data.bytes.get() + i * bytes, bytes, sample, value);
    expect(labels[i] == data_.row_of(sample), fmt::format("sample {} has label {}", sample, labels[i]));
    if (training_.options.augment)
      expect(batch.transforms.at(i) == value.transform, fmt::format("sample {}: another transform", sample));
  }
}

void Oracle::check_fields(const Batch& batch) const {
  const auto poses = batch.field("pose").values.as<float>();
  const BatchField& boxes = batch.field("boxes");
  const auto values = boxes.values.as<float>();
  std::size_t longest = 0;
  for (const std::int64_t sample : batch.indices)
    longest = std::max(longest, RandomData::boxes(data_.row_of(sample)).size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    const std::int64_t row = data_.row_of(batch.indices[i]);
    const std::vector<float> pose = RandomData::pose(row);
    std::vector<float> box = RandomData::boxes(row);
    expect(poses.size() >= 3 * (i + 1) && std::ranges::equal(poses.subspan(3 * i, 3), pose),
           fmt::format("row {}: another pose", row));
    if (boxes.lengths.defined()) {
      expect(boxes.lengths.as<std::int64_t>()[i] == static_cast<std::int64_t>(box.size()), "another length");
      box.resize(longest);
    }
    expect(values.size() >= at + box.size() && std::ranges::equal(values.subspan(at, box.size()), box),
           fmt::format("row {}: other boxes", row));
    at += box.size();
    if (boxes.offsets.defined())
      expect(boxes.offsets.as<std::int64_t>()[i + 1] == static_cast<std::int64_t>(at), "another offset");
  }
  expect(values.size() == at, "boxes of no sample");
}

void Oracle::check_origins(const Batch& batch) const {
  for (std::size_t i = 0; i < batch.origins.size(); ++i) {
    const auto [file, row] = data_.place_of(data_.row_of(batch.indices[i]));
    const SampleOrigin& origin = batch.origins[i];
    expect(origin.row == row && std::filesystem::path(origin.file).stem() == std::to_string(file),
           fmt::format("sample {} is not row {} of {}", batch.indices[i], origin.row, origin.file));
  }
}

bool Oracle::loses_samples(const Size& size) const {
  return training_.options.drop_last ||
         (training_.options.uneven == Uneven::drop && size.options.world_size > 1);
}

void Oracle::check_epoch(const Size& size, std::uint64_t epoch, const Count& delivered,
                         const Count& lost) const {
  std::vector<std::int64_t> samples(data_.chosen());
  if (training_.has_sampler || training_.has_batch_sampler) {
    samples.clear();
    for (const std::int64_t listed : training_.list(epoch))
      samples.push_back(data_.chosen()[static_cast<std::size_t>(listed)]);
  }
  const DataLoaderOptions& options = training_.options;
  const bool adds = options.uneven == Uneven::pad && size.options.world_size > 1;
  const bool replaces = options.on_error == OnError::replace && data_.has_bad();
  Count due;
  for (const std::int64_t sample : samples) {
    const bool skipped = options.on_error != OnError::fail && data_.is_bad(sample);
    for (std::int64_t repeat = 0; !skipped && repeat < options.echo.factor; ++repeat) ++due[{sample, repeat}];
  }
  std::set<std::pair<std::int64_t, std::int64_t>> all;
  for (const auto& [key, times] : due) all.insert(key);
  for (const auto& [key, times] : delivered) all.insert(key);
  const auto times_in = [](const Count& count, const auto& key) {
    const auto found = count.find(key);
    return found == count.end() ? std::int64_t{0} : found->second;
  };
  for (const auto& key : all) {
    const std::int64_t wanted = times_in(due, key), got = times_in(delivered, key) + times_in(lost, key);
    const bool is_lost = got < wanted && !loses_samples(size);
    const bool is_doubled = got > wanted && !adds && !replaces;
    expect(!is_lost && !is_doubled,
           fmt::format("epoch {}: sample {} repeat {} was delivered {} times and failed {} times, due {}",
                       epoch, key.first, key.second, times_in(delivered, key), times_in(lost, key), wanted));
  }
}

}  // namespace h5feed::test
