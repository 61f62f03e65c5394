// SPDX-License-Identifier: Apache-2.0
#include "stress/random_runs/random_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "base/with_type.hpp"
#include "dataset/dataset_state.hpp"
#include "store/filters/filters.hpp"
#include "store/format/byte_source.hpp"
#include "support/files/bytes.hpp"
#ifdef H5FEED_TEST_IMAGES
#include "support/files/image_bytes.hpp"
#endif

namespace h5feed::test {
namespace {

// Makes every fourth read sleep, as on slow storage, so that reading ahead begins.
class SleepySource final : public ByteSource {
 public:
  explicit SleepySource(std::shared_ptr<const ByteSource> source) : source_(std::move(source)) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (reads_.fetch_add(1) % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    source_->read(offset, out);
  }
  std::uint64_t size() const noexcept override { return source_->size(); }

 private:
  const std::shared_ptr<const ByteSource> source_;
  mutable std::atomic<std::uint64_t> reads_ = 0;
};

std::uint64_t elements_in(const std::vector<std::uint64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

FilterSpec filter(unsigned id, std::vector<unsigned> params) {
  return {.id = id, .optional = true, .params = std::move(params), .name = {}};
}

std::vector<FilterSpec> any_filters(Draw& draw, unsigned element, unsigned chunk) {
  const FilterSpec gzip = filter(filter_id::kDeflate, {4}), shuffle = filter(filter_id::kShuffle, {element});
  switch (draw.number(0, 9)) {
    case 0:
      return {};
    case 1:
      return {gzip};
    case 2:
      return {shuffle, gzip};
    case 3:
      return {filter(filter_id::kLzf, {4, 0x0105, chunk})};
    case 4:
      return {filter(filter_id::kLz4, {})};
    case 5:
      return {shuffle, filter(filter_id::kZstd, {1})};
    case 6:
      return {filter(filter_id::kBlosc, {2, 2, element, chunk, 5, 1, 1})};
    case 7:
      return {filter(filter_id::kBitshuffle, {0, 4, element, 0, 2})};
    case 8:
      return {filter(filter_id::kBzip2, {1})};
    default:
      return {};
  }
}

// Calls `visit` with the coordinates of every chunk, in chunks.
template <typename Visit>
void for_each_chunk(const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& chunk,
                    Visit visit) {
  std::vector<std::uint64_t> at(shape.size());
  while (true) {
    visit(at);
    std::size_t axis = shape.size();
    while (axis > 0 && ++at[axis - 1] * chunk[axis - 1] >= shape[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

// Returns the elements of a chunk; those beyond the edges of the data are 0.
std::vector<std::byte> cut(const std::vector<std::byte>& values, const std::vector<std::uint64_t>& shape,
                           const std::vector<std::uint64_t>& chunk, const std::vector<std::uint64_t>& at,
                           std::size_t element) {
  std::vector<std::byte> bytes(elements_in(chunk) * element);
  const std::vector<std::uint64_t> one(chunk.size(), 1);
  std::size_t to = 0;
  for_each_chunk(chunk, one, [&](const std::vector<std::uint64_t>& inside) {
    std::uint64_t from = 0;
    bool exists = true;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const std::uint64_t place = at[axis] * chunk[axis] + inside[axis];
      exists = exists && place < shape[axis];
      from = from * shape[axis] + place;
    }
    if (exists) std::memcpy(bytes.data() + to, values.data() + from * element, element);
    to += element;
  });
  return bytes;
}

template <typename T>
void append(std::vector<std::byte>& to, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

std::vector<std::uint64_t> with_rows(std::int64_t rows, std::vector<std::uint64_t> shape) {
  shape.insert(shape.begin(), static_cast<std::uint64_t>(rows));
  return shape;
}

void write_ragged(H5Writer& writer, const std::string& path, DType dtype,
                  const std::vector<std::vector<std::byte>>& values) {
  writer.create_ragged(path, dtype, values.size(), 7);
  writer.set_rows(path, values.size());
  const std::vector<std::span<const std::byte>> rows(values.begin(), values.end());
  writer.write_ragged(path, 0, rows);
}

}  // namespace

RandomData::RandomData(Draw& draw, const std::filesystem::path& folder) : folder_(folder) {
  draw_shape(draw);
  draw_storage(draw);
  draw_tiles(draw);
  draw_faults(draw);
  draw_subset(draw);
  fields_ = draw.one_in(3);
  boxes_collate_ = draw.any({Collate::ragged, Collate::pad});
  slow_ = draw.one_in(5);
  isolated_ = draw.one_in(6);
  describe();
  for (const bool with_faults : {false, true}) {
    if (with_faults && !has_bad()) continue;
    std::filesystem::create_directories(folder_ / (with_faults ? "damaged" : "whole"));
    write(folder_ / (with_faults ? "damaged" : "whole"), with_faults);
  }
}

void RandomData::draw_shape(Draw& draw) {
  const auto extent = [&](std::int64_t lowest) { return static_cast<std::uint64_t>(draw.number(lowest, 9)); };
  dtype_ = draw.any(
      {DType::u8, DType::u8, DType::i16, DType::u16, DType::i32, DType::i64, DType::f32, DType::f64});
#ifdef H5FEED_TEST_IMAGES
  encoded_ = draw.one_in(6);
#endif
  images_ = encoded_ || !draw.one_in(3);
  if (encoded_) {
    dtype_ = DType::u8;
    encoding_ = draw.any({".jpg", ".png"});
    layout_ = InputLayout::automatic;
  } else if (!images_) {
    sample_shape_ = draw.any({std::vector<std::uint64_t>{}, {extent(1)}, {extent(1), extent(1)}});
  } else {
    layout_ = draw.any({InputLayout::nchw, InputLayout::nhwc, InputLayout::nhw});
    if (layout_ == InputLayout::nhw) sample_shape_ = {extent(4), extent(4)};
    if (layout_ == InputLayout::nchw) sample_shape_ = {3, extent(4), extent(4)};
    if (layout_ == InputLayout::nhwc) sample_shape_ = {extent(4), extent(4), 3};
  }
  for (std::int64_t files = draw.any({1, 1, 2, 3}); files > 0; --files) {
    const std::int64_t rows = encoded_ ? draw.number(1, 40) : draw.one_in(8) ? 1 : draw.number(2, 130);
    first_rows_.push_back(first_rows_.back() + rows);
  }
}

void RandomData::draw_storage(Draw& draw) {
  chunks_ = static_cast<std::int64_t>(first_rows_.size()) - 1;
  if (encoded_ || draw.one_in(6)) return;
  const std::int64_t chunk_rows = draw.any({std::int64_t{1}, draw.number(2, 12), draw.number(2, 40)});
  chunk_shape_ = with_rows(chunk_rows, sample_shape_);
  if (draw.one_in(4)) {
    for (std::size_t axis = 1; axis < chunk_shape_.size(); ++axis)
      chunk_shape_[axis] = static_cast<std::uint64_t>(
          draw.number(2, std::max<std::int64_t>(2, static_cast<std::int64_t>(chunk_shape_[axis]))));
    for (std::size_t axis = 1; axis < chunk_shape_.size(); ++axis)
      chunk_shape_[axis] = std::min(chunk_shape_[axis], sample_shape_[axis - 1]);
  }
  // libhdf5 wants a chunk no larger than a dataset that cannot grow.
  for (std::size_t file = 0; file + 1 < first_rows_.size(); ++file)
    chunk_shape_[0] =
        std::min(chunk_shape_[0], static_cast<std::uint64_t>(first_rows_[file + 1] - first_rows_[file]));
  const auto bytes = static_cast<unsigned>(elements_in(chunk_shape_) * size_of(dtype_));
  filters_ = any_filters(draw, static_cast<unsigned>(size_of(dtype_)), bytes);
  if (!draw.one_in(3)) filters_.push_back(filter(filter_id::kFletcher32, {}));
  chunks_ = 0;
  for (std::size_t file = 0; file + 1 < first_rows_.size(); ++file) {
    const std::int64_t rows = first_rows_[file + 1] - first_rows_[file];
    const auto each = static_cast<std::int64_t>(chunk_shape_[0]);
    chunks_ += (rows + each - 1) / each;
  }
}

void RandomData::draw_tiles(Draw& draw) {
  if (encoded_ || !images_ || !draw.one_in(6)) return;
  const TileExtent size(draw.number(1, 4), draw.number(1, 4));
  tiles_ = TileOptions{.size = size, .edges = draw.any({TileEdges::drop, TileEdges::shift, TileEdges::pad})};
  const std::size_t height = layout_ == InputLayout::nchw ? 1 : 0;
  const auto along = [&](std::size_t axis, std::int64_t tile) {
    const auto extent = static_cast<std::int64_t>(sample_shape_[axis]);
    return tiles_->edges == TileEdges::drop ? extent / tile : (extent + tile - 1) / tile;
  };
  per_row_ = along(height, size.height) * along(height + 1, size.width);
}

void RandomData::draw_faults(Draw& draw) {
  if (draw.one_in(4)) return;
  if (encoded_) {
    if (rows() < 4) return;
    // The first image tells the size of all.
    for (const std::int64_t row : draw.different(draw.number(1, 3), rows() - 1)) bad_rows_.insert(row + 1);
    bad_chunks_ = bad_rows_.size();
    return;
  }
  const bool splits = !chunk_shape_.empty() &&
                      !std::equal(sample_shape_.begin(), sample_shape_.end(), chunk_shape_.begin() + 1);
  const bool checked = !filters_.empty() && filters_.back().id == filter_id::kFletcher32;
  if (!checked || chunks_ < 4 || (tiles_ && splits)) return;
  for (std::int64_t count = draw.number(1, 3); count > 0; --count) {
    const std::int64_t row = draw.number(0, rows() - 1);
    const auto [file, row_of_file] = place_of(row);
    const auto each = static_cast<std::int64_t>(chunk_shape_[0]);
    std::vector<std::uint64_t> chunk = {static_cast<std::uint64_t>(row_of_file / each)};
    for (std::size_t axis = 1; axis < chunk_shape_.size(); ++axis) {
      const std::uint64_t along = (sample_shape_[axis - 1] + chunk_shape_[axis] - 1) / chunk_shape_[axis];
      chunk.push_back(static_cast<std::uint64_t>(draw.number(0, static_cast<std::int64_t>(along) - 1)));
    }
    if (!bad_places_.emplace(file, chunk).second) continue;
    ++bad_chunks_;
    const std::int64_t begin = row_of_file / each * each;
    const std::int64_t end = std::min(begin + each, first_rows_[file + 1] - first_rows_[file]);
    for (std::int64_t bad = begin; bad < end; ++bad) bad_rows_.insert(first_rows_[file] + bad);
  }
}

void RandomData::draw_subset(Draw& draw) {
  const std::int64_t samples = rows() * per_row_;
  subset_ = draw.one_in(6);
  chosen_.resize(static_cast<std::size_t>(samples));
  std::iota(chosen_.begin(), chosen_.end(), 0);
  if (!subset_) return;
  chosen_ = draw.different(draw.number(1, samples), samples);
  if (draw.one_in(2)) std::ranges::sort(chosen_);
}

void RandomData::describe() {
  std::vector<unsigned> filters;
  for (const FilterSpec& each : filters_) filters.push_back(each.id);
  text_ = fmt::format("{} {}[{}] layout {} chunk [{}] filters [{}] files [{}]{}{}{}{}{}, {} of {} rows bad",
                      name_of(dtype_), encoding_, fmt::join(sample_shape_, ","), static_cast<int>(layout_),
                      fmt::join(chunk_shape_, ","), fmt::join(filters, ","), fmt::join(first_rows_, ","),
                      per_row_ > 1 ? fmt::format(" {} tiles a row", per_row_) : "",
                      subset_ ? fmt::format(" subset of {}", chosen_.size()) : "", fields_ ? " fields" : "",
                      slow_ ? " slow" : "", isolated_ ? " isolated" : "", bad_rows_.size(), rows());
}

std::uint64_t RandomData::sample_bytes() const noexcept {
  return encoded_ ? std::uint64_t{12 * 10 * 3} : elements_in(sample_shape_) * size_of(dtype_);
}

std::pair<std::size_t, std::int64_t> RandomData::place_of(std::int64_t row) const {
  std::size_t file = 0;
  while (row >= first_rows_[file + 1]) ++file;
  return {file, row - first_rows_[file]};
}

std::vector<std::byte> RandomData::row_bytes(std::int64_t row) const {
  const std::uint64_t elements = elements_in(sample_shape_);
  std::vector<std::byte> bytes(elements * size_of(dtype_));
  with_type_of(dtype_, [&](auto typed) {
    using T = decltype(typed);
    if constexpr (std::is_arithmetic_v<T>) {
      for (std::uint64_t at = 0; at < elements; ++at) {
        const auto number = static_cast<std::uint64_t>(row);
        const T value = static_cast<T>((number * 31 + at * 7 + (number / 61 + 1) * at / 3) % 127);
        std::memcpy(bytes.data() + at * sizeof(T), &value, sizeof value);
      }
    }
  });
  return bytes;
}

std::vector<std::byte> RandomData::encoded_image([[maybe_unused]] std::int64_t row) const {
#ifdef H5FEED_TEST_IMAGES
  return encoded(picture(12, 10, 3, static_cast<unsigned>(row)), encoding_);
#else
  return {};
#endif
}

std::optional<std::vector<std::byte>> RandomData::stored(std::int64_t sample) const {
  if (encoded_ || tiles_ || layout_ == InputLayout::nhwc) return std::nullopt;
  return row_bytes(row_of(sample));
}

std::vector<float> RandomData::pose(std::int64_t row) {
  const auto first = static_cast<float>(row);
  return {first, first / 2, -first};
}

std::vector<float> RandomData::boxes(std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(row * 7 % 5));
  std::iota(values.begin(), values.end(), static_cast<float>(row * 100));
  return values;
}

bool RandomData::is_bad_chunk(std::size_t file, const std::vector<std::uint64_t>& chunk) const {
  return bad_places_.contains({file, chunk});
}

void RandomData::write_numbers(H5Writer& writer, std::size_t file, bool with_faults) const {
  const std::vector<std::uint64_t> shape =
      with_rows(first_rows_[file + 1] - first_rows_[file], sample_shape_);
  std::vector<std::byte> values;
  for (std::int64_t row = first_rows_[file]; row < first_rows_[file + 1]; ++row)
    append(values, row_bytes(row));
  writer.create_dataset(
      {.path = "/images", .dtype = dtype_, .shape = shape, .chunk_shape = chunk_shape_, .filters = filters_});
  if (chunk_shape_.empty()) {
    writer.write_rows("/images", 0, shape.front(), values);
    return;
  }
  const std::size_t element = size_of(dtype_);
  const FilterPipeline pipeline(filters_, elements_in(chunk_shape_) * element, element);
  for_each_chunk(shape, chunk_shape_, [&](const std::vector<std::uint64_t>& at) {
    std::vector<std::byte> stored = pipeline.encode(cut(values, shape, chunk_shape_, at, element));
    if (with_faults && is_bad_chunk(file, at)) stored[stored.size() / 2] = ~stored[stored.size() / 2];
    std::vector<std::uint64_t> offset(at);
    for (std::size_t axis = 0; axis < offset.size(); ++axis) offset[axis] *= chunk_shape_[axis];
    writer.write_chunk("/images", offset, stored);
  });
}

void RandomData::write_encoded(H5Writer& writer, std::size_t file, bool with_faults) const {
  std::vector<std::vector<std::byte>> images;
  for (std::int64_t row = first_rows_[file]; row < first_rows_[file + 1]; ++row) {
    images.push_back(encoded_image(row));
    if (with_faults && bad_rows_.contains(row)) std::ranges::fill(images.back(), std::byte{0});
  }
  write_ragged(writer, "/images", DType::u8, images);
}

void RandomData::write(const std::filesystem::path& folder, bool with_faults) const {
  for (std::size_t file = 0; file + 1 < first_rows_.size(); ++file) {
    H5Writer writer(folder / fmt::format("{}.h5", file), false);
    encoded_ ? write_encoded(writer, file, with_faults) : write_numbers(writer, file, with_faults);
    std::vector<std::byte> labels, poses;
    std::vector<std::vector<std::byte>> boxes_of_rows;
    for (std::int64_t row = first_rows_[file]; row < first_rows_[file + 1]; ++row) {
      append(labels, std::vector{static_cast<std::int32_t>(row)});
      append(poses, pose(row));
      append(boxes_of_rows.emplace_back(), boxes(row));
    }
    const auto rows = static_cast<std::uint64_t>(first_rows_[file + 1] - first_rows_[file]);
    const NewDataset of_labels{.path = "/labels", .dtype = DType::i32, .shape = {rows}};
    writer.create_dataset(of_labels);
    writer.write_rows("/labels", 0, rows, labels);
    if (fields_) {
      const NewDataset of_poses{.path = "/pose", .dtype = DType::f32, .shape = {rows, 3}};
      writer.create_dataset(of_poses);
      writer.write_rows("/pose", 0, rows, poses);
      write_ragged(writer, "/boxes", DType::f32, boxes_of_rows);
    }
    writer.commit();
  }
}

Dataset RandomData::opened(bool with_faults) const {
  DatasetOptions options{.data = "images", .target = "labels", .input_layout = layout_, .tiles = tiles_};
  for (std::size_t file = 0; file + 1 < first_rows_.size(); ++file)
    options.files.push_back(folder_ / (with_faults && has_bad() ? "damaged" : "whole") /
                            fmt::format("{}.h5", file));
  if (fields_) options.fields = {{.name = "pose"}, {.name = "boxes", .collate = boxes_collate_}};
  if (with_faults && isolated_) options.isolation = Isolation::process;
  const Dataset all =
      with_faults && slow_
          ? DatasetAccess::open(options, [](auto source) { return std::make_shared<SleepySource>(source); })
          : Dataset::open(options);
  return subset_ ? all.subset(chosen_) : all;
}

}  // namespace h5feed::test
