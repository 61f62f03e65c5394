// SPDX-License-Identifier: Apache-2.0
#include "tools/check/dataset.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/isolation/isolated_file.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/sha256.hpp"
#include "tools/storage/chunk_walk.hpp"

namespace h5feed::cli {
namespace {

// One chunk in flight.
struct CheckedChunk {
  ChunkVisit visit;
  ChunkBox box;
  std::size_t box_bytes = 0;
  ByteBuffer direct;                  // the whole chunk as decoded by h5feed
  ByteBuffer clipped;                 // its part within the dataset
  ByteBuffer library;                 // the same part as read by libhdf5
  std::span<const std::byte> values;  // values to hash; empty if neither side could read them
  std::string direct_error;
  std::string library_error;
  bool too_large = false;            // libhdf5 would need more memory than its process may take
  std::string finding;               // empty if both sides agree
  std::shared_ptr<ByteBuffer> slab;  // null if nothing is hashed
};

// Formats one element as a number of its size: "0x3f800000".
std::string element_text(std::span<const std::byte> element) {
  std::string text = "0x";
  for (std::size_t i = element.size(); i-- > 0;)
    text += fmt::format("{:02x}", std::to_integer<int>(element[i]));
  return text;
}

class DatasetCheck {
 public:
  DatasetCheck(const H5File& file, const ChunkReader& reader, const CheckSettings& settings,
               const std::function<void(std::uint64_t)>& advance)
      : file_(file),
        reader_(reader),
        settings_(settings),
        advance_(advance),
        compares_(reader.direct()),
        walk_(reader, settings.memory_bytes / 4) {
    result_.chunks = result_.wanted = reader.num_chunks();
    // An item holds a chunk up to three times, and slabs take as much as two chunks per item, or else half of
    // the memory: there are never more than two slabs if a slab takes more visits than there are items.
    const std::uint64_t fit = settings.memory_bytes / 8 / std::max<std::uint64_t>(1, reader.chunk_bytes());
    items_.resize(
        static_cast<std::size_t>(std::clamp<std::uint64_t>(fit, 1, 2 * std::uint64_t{settings.jobs})));
    if (settings.sample < 1) {
      sample_.emplace(reader.num_chunks(), settings.sample);
      result_.wanted = sample_->size();
      result_.no_sha256 = "a sample has no digest of the whole";
    } else if (walk_.max_slab_bytes() > std::max(settings.memory_bytes / 2, kMiB)) {
      result_.no_sha256 =
          fmt::format("one row of {} does not fit the memory", format_bytes(walk_.max_slab_bytes()));
    }
    if (settings.only_decodes) {
      result_.not_compared = "encoded images";
      result_.no_sha256 = "images have no digest";
    }
    hashing_ = result_.no_sha256.empty();
    for (const FilterSpec& filter : reader.decoded_filters()) {
      if (compares_ && !file.has_filter(filter.id)) {
        result_.not_compared = fmt::format("libhdf5 has no filter {} ({})", filter.id, filter.name);
      }
    }
  }

  CheckResult run() {
    tbb::task_arena arena(static_cast<int>(settings_.jobs));
    arena.execute([&] {
      using tbb::filter_mode;
      tbb::parallel_pipeline(
          items_.size(),
          tbb::make_filter<void, CheckedChunk*>(filter_mode::serial_in_order,
                                                [&](auto& control) { return take(control); }) &
              tbb::make_filter<CheckedChunk*, CheckedChunk*>(
                  filter_mode::parallel, [&](CheckedChunk* item) { return decode(item); }) &
              tbb::make_filter<CheckedChunk*, CheckedChunk*>(
                  filter_mode::serial_out_of_order, [&](CheckedChunk* item) { return read_library(item); }) &
              tbb::make_filter<CheckedChunk*, CheckedChunk*>(
                  filter_mode::parallel, [&](CheckedChunk* item) { return compare(item); }) &
              tbb::make_filter<CheckedChunk*, void>(filter_mode::serial_in_order,
                                                    [&](CheckedChunk* item) { account(*item); }));
    });
    if (result_.no_sha256.empty() && stopped_) result_.no_sha256 = "time ran out before the last chunk";
    if (result_.no_sha256.empty()) result_.sha256 = sha256_.finish();
    if (too_large_ && result_.not_compared.empty())
      result_.not_compared = "libhdf5 needs more memory for its chunks than its process may take";
    return std::move(result_);
  }

 private:
  std::optional<ChunkVisit> next_visit() {
    if (sample_) {
      if (next_sample_ == sample_->size()) return std::nullopt;
      return ChunkVisit{.chunk = (*sample_)[next_sample_++]};
    }
    std::optional<ChunkVisit> visit = walk_.next();
    // Later visits only serve the digest.
    while (visit && !visit->first && !hashing_) visit = walk_.next();
    return visit;
  }

  // The pipeline has fewer chunks in flight than there are items, and they leave it in order: the next item
  // of the ring is free.
  CheckedChunk* take(tbb::flow_control& control) {
    check_interrupted();
    const std::optional<ChunkVisit> visit = next_visit();
    if (visit && settings_.deadline && Clock::now() >= *settings_.deadline) stopped_ = true;
    if (!visit || stopped_) {
      control.stop();
      return nullptr;
    }
    CheckedChunk& item = items_[taken_++ % items_.size()];
    item.visit = *visit;
    item.box = walk_.box(visit->chunk);
    item.box_bytes = size_of(reader_.info().dtype);
    for (const std::uint64_t extent : item.box.count) item.box_bytes *= extent;
    item.values = {};
    item.direct_error.clear();
    item.library_error.clear();
    item.too_large = false;
    item.finding.clear();
    if (!hashing_) {
      slab_ = nullptr;
    } else if (visit->opens_slab) {
      slab_ = std::make_shared<ByteBuffer>(walk_.slab_bytes(*visit));
    }
    item.slab = slab_;
    return &item;
  }

  CheckedChunk* decode(CheckedChunk* item) {
    if (!compares_) return item;
    try {
      item->direct.resize_discard(static_cast<std::size_t>(reader_.chunk_bytes()));
      reader_.read_chunk(item->visit.chunk, item->direct.span(), scratch_.local());
      item->values = within_extent(*item);
    } catch (const Error& error) {
      item->direct_error = error.what();
    }
    return item;
  }

  // Returns the elements of an edge chunk that are within the dataset; the others have no meaning.
  std::span<const std::byte> within_extent(CheckedChunk& item) const {
    const DatasetInfo& info = reader_.info();
    if (item.box_bytes == reader_.chunk_bytes()) return item.direct.span().first(item.box_bytes);
    item.clipped.resize_discard(item.box_bytes);
    copy_box({item.box.count, reader_.chunk_shape(), item.box.count, size_of(info.dtype)}, item.direct.data(),
             item.clipped.data());
    return item.clipped.span().first(item.box_bytes);
  }

  CheckedChunk* read_library(CheckedChunk* item) {
    if (compares_ && (!item->visit.first || !result_.not_compared.empty())) return item;
    if (!item->direct_error.empty()) {
      // The decoders of libhdf5 and its plugins trust their input: bytes that h5feed refused could crash the
      // process.
      item->library_error = "not asked";
      return item;
    }
    try {
      item->library.resize_discard(item->box_bytes);
      const std::size_t rank = reader_.info().shape.size();
      file_.read_hyperslab(reader_.info(), std::span(item->box.start).first(rank),
                           std::span(item->box.count).first(rank),
                           item->library.span().first(item->box_bytes));
      if (!compares_) item->values = item->library.span().first(item->box_bytes);
    } catch (const IsolationMemoryError& error) {
      item->library_error = error.what();
      item->too_large = compares_;
    } catch (const Error& error) {
      item->library_error = error.what();
    }
    return item;
  }

  CheckedChunk* compare(CheckedChunk* item) const {
    if (compares_ && item->visit.first) item->finding = difference(*item);
    if (item->slab && !item->values.empty()) {
      walk_.place(item->visit, item->box, item->values, item->slab->span());
    }
    return item;
  }

  std::string difference(const CheckedChunk& item) const {
    const std::string chunk = reader_.describe_chunk(item.visit.chunk);
    if (!item.direct_error.empty() || !result_.not_compared.empty()) return item.direct_error;
    if (item.too_large) return {};
    if (!item.library_error.empty()) {
      return fmt::format("{}: h5feed decodes it, yet libhdf5 cannot read it ({}); report it with this file",
                         chunk, item.library_error);
    }
    const std::byte* const ours = item.values.data();
    const std::byte* const theirs = item.library.data();
    if (std::memcmp(ours, theirs, item.box_bytes) == 0) return {};

    std::size_t first = 0;
    while (ours[first] == theirs[first]) ++first;
    std::size_t last = item.box_bytes - 1;
    while (ours[last] == theirs[last]) --last;
    const std::size_t element_bytes = size_of(reader_.info().dtype);
    std::vector<std::uint64_t> place = chunk_coordinates(first / element_bytes, item.box.count);
    const std::uint64_t last_sample =
        item.box.start.front() + chunk_coordinates(last / element_bytes, item.box.count).front();
    for (std::size_t d = 0; d < place.size(); ++d) place[d] += item.box.start[d];
    const std::size_t at = first / element_bytes * element_bytes;
    return fmt::format(
        "{} differs from libhdf5 in samples {}-{}: element ({}) is {}, libhdf5 has {}; report it with this "
        "file",
        chunk, place.front(), last_sample, fmt::join(place, ","),
        element_text(item.values.subspan(at, element_bytes)),
        element_text(item.library.span().subspan(at, element_bytes)));
  }

  // Returns what a loader says of a chunk that cannot be read.
  std::string error_of_loader(CheckedChunk& item) {
    if (compares_) return item.direct_error;
    try {
      item.direct.resize_discard(static_cast<std::size_t>(reader_.chunk_bytes()));
      reader_.read_chunk(item.visit.chunk, item.direct.span(), scratch_.local());
    } catch (const Error& error) {
      return error.what();
    }
    return item.library_error;
  }

  void account(CheckedChunk& item) {
    if (item.visit.first) {
      ++result_.visited;
      too_large_ = too_large_ || item.too_large;
      if (!compares_) item.finding = item.library_error;
      if (!item.finding.empty()) {
        const bool unreadable = !item.direct_error.empty() || !compares_;
        ++(unreadable ? result_.corrupt : result_.differing);
        if (unreadable && settings_.bad_list != nullptr)
          settings_.bad_list->add(bad_chunk(reader_, item.visit.chunk, error_of_loader(item)));
        if (result_.findings.size() < kMostFindings) result_.findings.push_back(std::move(item.finding));
      }
    }
    if (hashing_ && (!result_.clean() || item.values.empty())) {
      hashing_ = false;
      result_.no_sha256 = "not all chunks are equal on both sides";
    }
    if (hashing_ && item.visit.closes_slab) sha256_.update(item.slab->span());
    item.slab = nullptr;
    advance_(item.box_bytes);
  }

  const H5File& file_;
  const ChunkReader& reader_;
  const CheckSettings settings_;
  const std::function<void(std::uint64_t)>& advance_;
  const bool compares_;  // otherwise libhdf5 is this dataset's only reader
  ChunkWalk walk_;
  std::optional<ChunkSample> sample_;  // none: all chunks
  std::uint64_t next_sample_ = 0;
  std::vector<CheckedChunk> items_;
  std::uint64_t taken_ = 0;
  bool stopped_ = false;
  bool too_large_ = false;           // some chunks were not compared
  std::atomic<bool> hashing_{true};  // cleared by the last stage, read by the first
  std::shared_ptr<ByteBuffer> slab_;
  Sha256 sha256_;
  tbb::enumerable_thread_specific<ReadScratch> scratch_;
  CheckResult result_;
};

}  // namespace

CheckResult check_dataset(const H5File& file, const ChunkReader& reader, const CheckSettings& settings,
                          const std::function<void(std::uint64_t)>& advance) {
  return DatasetCheck(file, reader, settings, advance).run();
}

ChunkSample::ChunkSample(std::uint64_t num_chunks, double share) : num_chunks_(num_chunks) {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(static_cast<double>(num_chunks) * share));
  parts_ = num_chunks == 0 ? 0 : std::clamp<std::uint64_t>(wanted, 1, num_chunks);
}

std::uint64_t ChunkSample::operator[](std::uint64_t part) const {
  const std::uint64_t least = num_chunks_ / parts_, larger = num_chunks_ % parts_;
  const std::uint64_t begin = part * least + std::min(part, larger);
  return begin + mix_key(0, 0, part) % (least + (part < larger ? 1 : 0));
}

}  // namespace h5feed::cli
