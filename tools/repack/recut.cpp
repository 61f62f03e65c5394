// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/recut.hpp"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/byte_units.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/read/stored_chunks.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/repack/scratch.hpp"

namespace h5feed::cli {
namespace {

// Bytes of source chunk parts that are read from the scratch file at once.
constexpr std::uint64_t kRunBytes = kMiB;

// Rows [begin, end) of one region in memory; some of them make whole target chunks.
struct Window {
  std::size_t region = 0;
  ChunkBox box;
  std::uint64_t complete_rows = 0;
  ByteBuffer values;
};
using WindowPtr = std::shared_ptr<Window>;

// One thread's buffers.
struct RecutBuffers {
  ReadScratch scratch;
  ByteBuffer chunk;
};

class Recut {
 public:
  Recut(const ChunkReader& reader, const RecutShapes& shapes, const RecutPlan& plan,
        const std::filesystem::path& out, const RecutTarget& target,
        const std::function<void(std::uint64_t)>& advance)
      : reader_(reader),
        stored_(StoredChunks::of(reader)),
        shapes_(shapes),
        plan_(plan),
        target_(target),
        advance_(advance),
        regions_(regions_of(shapes, plan)),
        layout_(shapes, regions_),
        buffers_(plan.jobs),
        arena_(static_cast<int>(plan.jobs)) {
    std::uint64_t elements = 1;
    for (const std::uint64_t extent : shapes.shape) elements *= extent;
    for (std::uint64_t chunk = 0; chunk < reader.num_chunks() && all_written_; ++chunk) {
      all_written_ = stored_.written(chunk);
    }
    if (plan.scratch) scratch_ = std::make_unique<ScratchFile>(out, elements * shapes.element_bytes);
  }

  void run() {
    arena_.execute([&] {
      if (scratch_) fill_scratch();
      using tbb::filter_mode;
      tbb::parallel_pipeline(
          plan_.windows,
          tbb::make_filter<void, WindowPtr>(filter_mode::serial_in_order, [&](auto& control) {
            return fill_window(control);
          }) & tbb::make_filter<WindowPtr, void>(filter_mode::serial_in_order, [&](const WindowPtr& window) {
            empty_window(*window);
          }));
    });
  }

 private:
  std::size_t element_bytes() const noexcept { return shapes_.element_bytes; }

  // A task runs on one slot of the arena and never waits inside, so that nobody else uses the slot's buffers.
  RecutBuffers& buffers() {
    return buffers_[static_cast<std::size_t>(tbb::this_task_arena::current_thread_index())];
  }

  // Decodes one source chunk and returns its values.
  const std::byte* decoded(std::uint64_t chunk, RecutBuffers& own) const {
    own.chunk.resize_discard(static_cast<std::size_t>(reader_.chunk_bytes()));
    reader_.read_chunk(chunk, own.chunk.span(), own.scratch);
    return own.chunk.data();
  }

  ChunkBox whole_chunk(const ChunkBox& clipped) const { return {clipped.start, shapes_.source_chunk}; }

  void place(const ChunkBox& part, const ChunkBox& from_box, const std::byte* from, Window& window) const {
    copy_box({part.count, from_box.count, window.box.count, element_bytes()},
             from + offset_within(from_box, part) * element_bytes(),
             window.values.data() + offset_within(window.box, part) * element_bytes());
  }

  // Decodes each source chunk once and writes its parts where the regions will look for them.
  void fill_scratch() {
    const std::uint64_t group_bytes = plan_.window_bytes * plan_.windows / 2;
    const std::uint64_t group = std::max<std::uint64_t>(1, group_bytes / reader_.chunk_bytes());
    std::vector<ByteBuffer> chunks(static_cast<std::size_t>(std::min(group, reader_.num_chunks())));
    for (std::uint64_t first = 0; first < reader_.num_chunks(); first += group) {
      check_interrupted();
      const std::uint64_t end = std::min(reader_.num_chunks(), first + group);
      tbb::parallel_for(first, end, [&](std::uint64_t chunk) {
        if (!stored_.written(chunk)) return;
        ByteBuffer& values = chunks[static_cast<std::size_t>(chunk - first)];
        values.resize_discard(static_cast<std::size_t>(reader_.chunk_bytes()));
        reader_.read_chunk(chunk, values.span(), buffers().scratch);
      });
      std::vector<ChunkBox> boxes;
      std::uint64_t bytes = 0;
      for (std::uint64_t chunk = first; chunk < end; ++chunk) {
        boxes.push_back(box_of_chunk(chunk, shapes_.source_chunk, shapes_.shape));
        bytes += elements_of(boxes.back()) * element_bytes();
      }
      tbb::parallel_for(std::size_t{0}, regions_.size(),
                        [&](std::size_t region) { write_parts(region, chunks, boxes); });
      advance_(bytes / 2);
    }
  }

  // The parts of a region are in the scratch file in the order of the chunks.
  void write_parts(std::size_t region, const std::vector<ByteBuffer>& chunks,
                   const std::vector<ChunkBox>& boxes) {
    std::vector<std::byte> run;
    std::optional<std::uint64_t> offset;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const ChunkBox part = intersection(boxes[i], regions_[region]);
      const std::uint64_t bytes = elements_of(part) * element_bytes();
      if (bytes == 0) continue;
      if (!offset) offset = layout_.offset(region, part);
      const std::size_t at = run.size();
      run.resize(at + static_cast<std::size_t>(bytes));
      if (chunks[i].size() == 0) continue;  // never written
      const ChunkBox from = whole_chunk(boxes[i]);
      copy_box({part.count, from.count, part.count, element_bytes()},
               chunks[i].data() + offset_within(from, part) * element_bytes(), run.data() + at);
    }
    if (offset) scratch_->write(*offset, run);
  }

  // Fills a window for the next step of the current region: its source chunks, after the rows left by the
  // last window.
  WindowPtr fill_window(tbb::flow_control& control) {
    check_interrupted();
    if (region_ == regions_.size()) {
      control.stop();
      return nullptr;
    }
    const ChunkBox& region = regions_[region_];
    const std::uint64_t begin = region.start.front(), end = begin + region.count.front();
    const std::uint64_t source_rows = shapes_.source_chunk.front(),
                        target_rows = shapes_.target_chunk.front();
    const std::uint64_t window_begin = rest_ ? rest_->start.front() : begin;
    if (!rest_) next_row_ = begin;
    // Whole source chunks, up to the one that completes the step's last target chunk.
    const std::uint64_t wanted_end = window_begin + plan_.bands_per_step * target_rows;
    const std::uint64_t step_end = std::min(end, (wanted_end + source_rows - 1) / source_rows * source_rows);

    auto window = std::make_shared<Window>();
    window->region = region_;
    window->box = region;
    window->box.start.front() = window_begin;
    window->box.count.front() = step_end - window_begin;
    window->complete_rows =
        step_end == end ? step_end - window_begin : (step_end - window_begin) / target_rows * target_rows;
    window->values = ByteBuffer(static_cast<std::size_t>(elements_of(window->box) * element_bytes()));
    if (rest_) place(*rest_, *rest_, rest_values_.data(), *window);
    ChunkBox fresh = window->box;
    fresh.start.front() = next_row_;
    fresh.count.front() = step_end - next_row_;
    fill_rows(fresh, *window);

    next_row_ = step_end;
    rest_.reset();
    if (step_end == end) {
      ++region_;
    } else {
      keep_rest(*window);
    }
    return window;
  }

  // Keeps the rows of target chunks that are not complete yet.
  void keep_rest(const Window& window) {
    rest_ = window.box;
    rest_->start.front() += window.complete_rows;
    rest_->count.front() -= window.complete_rows;
    rest_values_.resize_discard(static_cast<std::size_t>(elements_of(*rest_) * element_bytes()));
    copy_box({rest_->count, window.box.count, rest_->count, element_bytes()},
             window.values.data() + offset_within(window.box, *rest_) * element_bytes(), rest_values_.data());
  }

  void fill_rows(const ChunkBox& rows, Window& window) {
    std::vector<std::uint64_t> chunks = chunks_touching(rows, shapes_.source_chunk, shapes_.shape);
    if (!all_written_) {
      const auto unwritten = [&](std::uint64_t chunk) { return !stored_.written(chunk); };
      if (std::any_of(chunks.begin(), chunks.end(), unwritten)) {
        const auto from = static_cast<std::size_t>(offset_within(window.box, rows) * element_bytes());
        fill_with(reader_.info().fill_value, window.values.span().subspan(from));
      }
    }
    std::vector<ChunkBox> parts;
    std::uint64_t bytes = 0;
    for (const std::uint64_t chunk : chunks) {
      parts.push_back(intersection(box_of_chunk(chunk, shapes_.source_chunk, shapes_.shape), rows));
      bytes += elements_of(parts.back()) * element_bytes();
    }
    if (scratch_) {
      place_from_scratch(chunks, parts, window);
    } else {
      tbb::parallel_for(std::size_t{0}, chunks.size(), [&](std::size_t i) {
        if (!stored_.written(chunks[i])) return;
        const ChunkBox from = whole_chunk(box_of_chunk(chunks[i], shapes_.source_chunk, shapes_.shape));
        place(parts[i], from, decoded(chunks[i], buffers()), window);
      });
    }
    advance_(scratch_ ? bytes / 2 : bytes);
  }

  void place_from_scratch(const std::vector<std::uint64_t>& chunks, const std::vector<ChunkBox>& parts,
                          Window& window) {
    // In the scratch file, a part is everything that the region has of its chunk, over all steps.
    std::vector<std::size_t> run_begins = {0};
    std::vector<ChunkBox> whole;
    std::uint64_t run_bytes = 0;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      whole.push_back(intersection(box_of_chunk(chunks[i], shapes_.source_chunk, shapes_.shape),
                                   regions_[window.region]));
      const std::uint64_t bytes = elements_of(whole.back()) * element_bytes();
      if (run_bytes > 0 && run_bytes + bytes > kRunBytes) {
        run_begins.push_back(i);
        run_bytes = 0;
      }
      run_bytes += bytes;
    }
    run_begins.push_back(chunks.size());
    tbb::parallel_for(std::size_t{0}, run_begins.size() - 1, [&](std::size_t run) {
      const std::size_t first = run_begins[run], end = run_begins[run + 1];
      const std::uint64_t offset = layout_.offset(window.region, whole[first]);
      const std::uint64_t bytes = layout_.offset(window.region, whole[end - 1]) - offset +
                                  elements_of(whole[end - 1]) * element_bytes();
      RecutBuffers& own = buffers();
      own.chunk.resize_discard(static_cast<std::size_t>(bytes));
      scratch_->read(offset, own.chunk.span().first(static_cast<std::size_t>(bytes)));
      for (std::size_t i = first; i < end; ++i) {
        if (!stored_.written(chunks[i])) continue;
        place(parts[i], whole[i], own.chunk.data() + (layout_.offset(window.region, whole[i]) - offset),
              window);
      }
    });
  }

  // Returns whether any source chunk under the target chunk was ever written.
  bool touched(const ChunkBox& box) const {
    if (all_written_ || target_.every_chunk) return true;
    const auto chunks = chunks_touching(box, shapes_.source_chunk, shapes_.shape);
    return std::any_of(chunks.begin(), chunks.end(),
                       [&](std::uint64_t chunk) { return stored_.written(chunk); });
  }

  void empty_window(Window& window) {
    ChunkBox rows = window.box;
    rows.count.front() = window.complete_rows;
    const auto chunks = chunks_touching(rows, shapes_.target_chunk, shapes_.shape);
    std::size_t next = 0;
    using ChunkPtr = std::shared_ptr<TargetChunk>;
    using tbb::filter_mode;
    tbb::parallel_pipeline(
        plan_.encoders,
        tbb::make_filter<void, ChunkPtr>(filter_mode::serial_in_order,
                                         [&](tbb::flow_control& control) -> ChunkPtr {
                                           check_interrupted();
                                           if (next == chunks.size()) {
                                             control.stop();
                                             return nullptr;
                                           }
                                           auto chunk = std::make_shared<TargetChunk>();
                                           chunk->number = chunks[next++];
                                           return chunk;
                                         }) &
            tbb::make_filter<ChunkPtr, ChunkPtr>(filter_mode::parallel,
                                                 [&](ChunkPtr chunk) {
                                                   take_out(window, *chunk);
                                                   return chunk;
                                                 }) &
            tbb::make_filter<ChunkPtr, void>(filter_mode::serial_in_order, [&](const ChunkPtr& chunk) {
              if (chunk->values.size() > 0) target_.write(*chunk);
            }));
  }

  void take_out(const Window& window, TargetChunk& chunk) const {
    chunk.box = box_of_chunk(chunk.number, shapes_.target_chunk, shapes_.shape);
    if (!touched(chunk.box)) return;
    std::uint64_t bytes = element_bytes();
    for (const std::uint64_t extent : shapes_.target_chunk) bytes *= extent;
    chunk.values = ByteBuffer(static_cast<std::size_t>(bytes));
    if (chunk.box.count != shapes_.target_chunk) fill_with(reader_.info().fill_value, chunk.values.span());
    copy_box({chunk.box.count, window.box.count, shapes_.target_chunk, element_bytes()},
             window.values.data() + offset_within(window.box, chunk.box) * element_bytes(),
             chunk.values.data());
    target_.encode(chunk);
  }

  const ChunkReader& reader_;
  const StoredChunks& stored_;
  const RecutShapes& shapes_;
  const RecutPlan& plan_;
  const RecutTarget& target_;
  const std::function<void(std::uint64_t)>& advance_;
  const std::vector<ChunkBox> regions_;
  const ScratchLayout layout_;
  std::vector<RecutBuffers> buffers_;  // indexed by slot of the arena
  tbb::task_arena arena_;
  bool all_written_ = true;
  std::unique_ptr<ScratchFile> scratch_;

  // State of filling windows, which runs one at a time.
  std::size_t region_ = 0;
  std::uint64_t next_row_ = 0;
  std::optional<ChunkBox> rest_;  // rows left by the last window, within the current region
  ByteBuffer rest_values_;
};

}  // namespace

void recut(const ChunkReader& reader, const RecutShapes& shapes, const RecutPlan& plan,
           const std::filesystem::path& out, const RecutTarget& target,
           const std::function<void(std::uint64_t)>& advance) {
  Recut(reader, shapes, plan, out, target, advance).run();
}

}  // namespace h5feed::cli
