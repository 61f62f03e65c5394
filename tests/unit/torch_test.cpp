#include "h5feed/torch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "store/h5_writer.hpp"

namespace h5feed {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A file of two contiguous datasets, /data and, where given, /target. Element i of the data is i, in
// the range of its type.
class TorchLoader : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        fs::path(::testing::TempDir()) /
        (std::string("torch_test_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  template <typename T>
  static void write(H5Writer& writer, const std::string& path, std::vector<std::uint64_t> shape,
                    const std::vector<T>& values) {
    const std::uint64_t rows = shape.front();
    writer.create_dataset({.path = path, .dtype = dtype_of<T>(), .shape = std::move(shape)});
    writer.write_rows(path, 0, rows, std::as_bytes(std::span(values)));
  }

  template <typename T>
  static std::vector<T> counting(std::uint64_t count) {
    std::vector<T> values(count);
    for (std::uint64_t i = 0; i < count; ++i) values[i] = static_cast<T>(i);
    return values;
  }

  template <typename Data, typename Target>
  Dataset open(std::vector<std::uint64_t> data_shape, std::vector<std::uint64_t> target_shape,
               const std::vector<Target>& target, InputLayout layout = InputLayout::automatic) const {
    const fs::path file = directory_ / "data.h5";
    H5Writer writer(file, true);
    const std::uint64_t elements =
        std::accumulate(data_shape.begin(), data_shape.end(), std::uint64_t{1}, std::multiplies<>());
    write(writer, "/data", data_shape, counting<Data>(elements));
    if (!target_shape.empty()) write(writer, "/target", target_shape, target);
    writer.commit();
    return Dataset::open({.files = {file},
                          .data = "data",
                          .target = target_shape.empty() ? std::string() : "target",
                          .input_layout = layout});
  }

  // 20 images of 4 × 5 pixels whose label is their number.
  Dataset open_images() const {
    return open<std::uint8_t, std::uint8_t>({20, 4, 5}, {20}, counting<std::uint8_t>(20));
  }

  static std::vector<std::int64_t> labels_of_epoch(TorchDataLoader& loader) {
    std::vector<std::int64_t> labels;
    for (auto& batch : loader) {
      for (std::int64_t i = 0; i < batch.target.size(0); ++i)
        labels.push_back(batch.target[i].item<std::int64_t>());
    }
    return labels;
  }

  fs::path directory_;
};

TEST_F(TorchLoader, serves_the_loop_that_libtorch_users_write) {
  auto loader = make_data_loader(open_images(), {.batch_size = 8, .num_workers = 2});
  EXPECT_EQ(loader->size(), 3U);
  std::vector<std::int64_t> sizes;
  std::int64_t first = 0;
  for (auto& batch : *loader) {
    const std::int64_t count = batch.data.size(0);
    EXPECT_EQ(batch.data.sizes(), (torch::IntArrayRef{count, 1, 4, 5}));
    EXPECT_EQ(batch.data.scalar_type(), torch::kUInt8);
    EXPECT_EQ(batch.target.scalar_type(), torch::kInt64);
    EXPECT_TRUE(torch::equal(batch.target, torch::arange(first, first + count)));
    const auto stored = torch::arange(first * 20, (first + count) * 20).to(torch::kUInt8);
    EXPECT_TRUE(torch::equal(batch.data.flatten(), stored));
    sizes.push_back(count);
    first += count;
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{8, 8, 4}));
  EXPECT_EQ(loader->stats().samples, 20U);
  EXPECT_FALSE(loader->report().empty());
}

TEST_F(TorchLoader, delivers_channels_last_images_as_channels_first) {
  const Dataset data = open<std::uint8_t, std::uint8_t>({6, 5, 7, 3}, {}, {});
  auto loader = make_data_loader(data, {.batch_size = 6});
  const auto batch = *loader->begin();
  const auto stored = torch::arange(6 * 5 * 7 * 3).to(torch::kUInt8).reshape({6, 5, 7, 3});
  EXPECT_TRUE(torch::equal(batch.data, stored.permute({0, 3, 1, 2})));
}

TEST_F(TorchLoader, normalizes_to_float32_in_the_stated_formula) {
  DataLoaderOptions options{.batch_size = 20};
  options.normalize = {.scale = {}, .mean = {0.25}, .std = {0.5}};
  auto loader = make_data_loader(open_images(), options);
  const auto batch = *loader->begin();
  EXPECT_EQ(batch.data.scalar_type(), torch::kFloat32);
  const auto stored = torch::arange(400).to(torch::kUInt8).reshape({20, 1, 4, 5}).to(torch::kFloat64);
  EXPECT_TRUE(torch::equal(batch.data, ((stored / 255 - 0.25) / 0.5).to(torch::kFloat32)));
}

TEST_F(TorchLoader, leaves_the_target_undefined_where_there_is_none) {
  auto loader = make_data_loader(open<std::uint8_t, std::uint8_t>({6, 4, 5}, {}, {}), {.batch_size = 6});
  EXPECT_FALSE(loader->begin()->target.defined());
}

TEST_F(TorchLoader, cross_entropy_takes_integer_labels_with_a_dimension_of_one) {
  const Dataset data = open<float, std::int32_t>({6, 10}, {6, 1}, {0, 9, 3, 1, 4, 2}, InputLayout::none);
  auto loader = make_data_loader(data, {.batch_size = 6});
  const auto batch = *loader->begin();
  const auto loss = torch::nn::functional::cross_entropy(batch.data.log_softmax(1), batch.target);
  EXPECT_TRUE(torch::isfinite(loss).item<bool>());
  EXPECT_EQ(batch.target.sizes(), (torch::IntArrayRef{6}));
}

TEST_F(TorchLoader, mse_loss_takes_float_targets_of_several_values) {
  const Dataset data = open<float, float>({6, 3}, {6, 3}, counting<float>(18), InputLayout::none);
  auto loader = make_data_loader(data, {.batch_size = 6});
  const auto batch = *loader->begin();
  EXPECT_EQ(batch.target.scalar_type(), torch::kFloat32);
  EXPECT_EQ(torch::mse_loss(batch.data, batch.target).item<float>(), 0.0F);
}

TEST_F(TorchLoader, float64_targets_keep_their_type) {
  const Dataset data = open<float, double>({6, 3}, {6}, {0, 1, 0, 1, 0.5, 1}, InputLayout::none);
  auto loader = make_data_loader(data, {.batch_size = 6});
  EXPECT_EQ(loader->begin()->target.scalar_type(), torch::kFloat64);
}

TEST_F(TorchLoader, binary_cross_entropy_takes_float_targets_with_a_dimension_of_one) {
  const Dataset data = open<float, float>({6, 3}, {6, 1}, {0, 1, 0, 1, 1, 0}, InputLayout::none);
  auto loader = make_data_loader(data, {.batch_size = 6});
  const auto batch = *loader->begin();
  const auto logits = batch.data.sum(1);
  const auto loss = torch::binary_cross_entropy_with_logits(logits, batch.target);
  EXPECT_TRUE(torch::isfinite(loss).item<bool>());
}

TEST_F(TorchLoader, tensors_outlive_the_loader_and_belong_to_their_consumer) {
  std::vector<torch::data::Example<>> kept;
  {
    auto loader = make_data_loader(open_images(), {.batch_size = 4, .num_workers = 2});
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (auto& batch : *loader) kept.push_back(std::move(batch));
    }
  }
  ASSERT_EQ(kept.size(), 10U);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto first = static_cast<std::int64_t>(i % 5 * 4);
    EXPECT_TRUE(torch::equal(kept[i].target, torch::arange(first, first + 4)));
    kept[i].data.fill_(7);
    EXPECT_TRUE(torch::equal(kept[i].target, torch::arange(first, first + 4)));
  }
}

TEST_F(TorchLoader, manual_seed_governs_the_order_where_no_seed_is_set) {
  const Dataset data = open_images();
  const auto order = [&](std::uint64_t torch_seed, DataLoaderOptions options) {
    options.batch_size = 4;
    options.shuffle = true;
    torch::manual_seed(torch_seed);
    auto loader = make_data_loader(data, options);
    return labels_of_epoch(*loader);
  };
  const auto seven = order(7, {});
  EXPECT_EQ(order(7, {.num_workers = 2}), seven);
  EXPECT_NE(order(8, {}), seven);
  EXPECT_EQ(order(7, {.seed = 1}), order(8, {.seed = 1}));

  torch::manual_seed(7);
  auto first = make_data_loader(data, {.shuffle = true});
  auto second = make_data_loader(data, {.shuffle = true});
  EXPECT_NE(first->options().seed, second->options().seed);
}

TEST_F(TorchLoader, epochs_differ_and_set_epoch_repeats_one) {
  auto loader =
      make_data_loader(open_images(), {.batch_size = 4, .shuffle = true, .num_workers = 2, .seed = 3});
  const auto first = labels_of_epoch(*loader);
  EXPECT_NE(labels_of_epoch(*loader), first);
  loader->set_epoch(0);
  EXPECT_EQ(labels_of_epoch(*loader), first);
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, counting<std::int64_t>(20));
}

TEST_F(TorchLoader, a_run_that_is_resumed_goes_on_with_its_seed) {
  const Dataset dataset = open<std::uint8_t, std::int64_t>({12, 2, 2}, {12}, counting<std::int64_t>(12));
  const auto order = [](TorchDataLoader& loader) {
    std::vector<std::int64_t> targets;
    for (auto& batch : loader) {
      const std::int64_t* const first = batch.target.data_ptr<std::int64_t>();
      targets.insert(targets.end(), first, first + batch.target.numel());
    }
    return targets;
  };
  auto first = make_data_loader(dataset, {.batch_size = 5, .shuffle = true});
  (void)first->begin()->data;
  const std::string saved = first->state().to_bytes();
  auto second = make_data_loader(dataset, {.batch_size = 5, .shuffle = true, .num_workers = 1});
  EXPECT_NE(second->options().seed, first->options().seed) << "Torch's generator went on";
  second->restore(LoaderState::from_bytes(saved));
  second->warm_up();
  const std::vector<std::int64_t> rest = order(*second);
  first->set_epoch(0);
  std::vector<std::int64_t> whole = order(*first);
  EXPECT_EQ(rest, std::vector<std::int64_t>(whole.begin() + 5, whole.end()));
}

// The global order of torch.utils.data.DistributedSampler(shuffle=True): a permutation from a generator with
// seed + epoch, filled up from its beginning, dealt in turn.
TEST_F(TorchLoader, reproduces_the_order_of_distributed_sampler) {
  constexpr std::int64_t kSamples = 103;
  const Dataset dataset =
      open<std::uint8_t, std::int64_t>({kSamples, 2, 2}, {kSamples}, counting<std::int64_t>(kSamples));
  for (const std::uint64_t epoch : {0u, 3u}) {
    auto generator = at::detail::createCPUGenerator(17 + epoch);
    const torch::Tensor order = torch::randperm(kSamples, generator, torch::kInt64);
    std::vector<std::int64_t> global(order.data_ptr<std::int64_t>(),
                                     order.data_ptr<std::int64_t>() + kSamples);
    for (std::int64_t i = 0; global.size() % 4 != 0; ++i)
      global.push_back(global[static_cast<std::size_t>(i)]);
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      DataLoader loader(dataset, {.batch_size = 10,
                                  .sampler = std::make_shared<TorchRandomSampler>(kSamples),
                                  .num_workers = 2,
                                  .seed = 17,
                                  .rank = rank,
                                  .world_size = 4,
                                  .uneven = Uneven::pad});
      loader.set_epoch(epoch);
      std::size_t place = static_cast<std::size_t>(rank);
      for (Batch& batch : loader) {
        for (const std::int64_t sample : batch.indices) {
          ASSERT_EQ(sample, global.at(place)) << "epoch " << epoch << ", rank " << rank;
          place += 4;
        }
      }
      EXPECT_EQ(place, global.size() + static_cast<std::size_t>(rank));
    }
  }
}

TEST_F(TorchLoader, a_loop_may_be_left_and_begun_again) {
  auto loader = make_data_loader(open_images(), {.batch_size = 4, .num_workers = 2});
  for (int attempt = 0; attempt < 3; ++attempt) {
    for (auto& batch : *loader) {
      EXPECT_EQ(batch.target[0].item<std::int64_t>(), 0);
      break;
    }
  }
  EXPECT_EQ(labels_of_epoch(*loader), counting<std::int64_t>(20));
}

TEST_F(TorchLoader, an_iterator_behaves_as_libtorchs) {
  auto loader = make_data_loader(open_images(), {.batch_size = 16});
  auto it = loader->begin();
  EXPECT_TRUE(it == it);
  EXPECT_FALSE(it == loader->end());
  torch::data::Example<> moved = std::move(*it);
  EXPECT_EQ(moved.data.size(0), 16);
  EXPECT_FALSE(it->data.defined());  // what was moved from is not fetched again
  auto copy = it;
  ++it;
  EXPECT_EQ(copy->target.size(0), 4);  // copies share one position
  ++it;
  EXPECT_TRUE(it == loader->end());
  EXPECT_TRUE(copy == loader->end());
  EXPECT_THROW(++it, std::out_of_range);
  EXPECT_THROW(*it, std::out_of_range);
  EXPECT_THROW(*loader->end(), std::out_of_range);
}

TEST_F(TorchLoader, without_a_batch_size_samples_come_singly) {
  auto loader = make_data_loader(open_images(), {.batch_size = std::nullopt});
  EXPECT_EQ(loader->size(), 20U);
  auto it = loader->begin();
  EXPECT_EQ(it->data.sizes(), (torch::IntArrayRef{1, 4, 5}));
  EXPECT_EQ(it->target.dim(), 0);
  ++it;
  EXPECT_EQ(it->target.item<std::int64_t>(), 1);
}

TEST_F(TorchLoader, refuses_types_that_libtorch_does_not_have) {
  const Dataset unsigned_data =
      open<std::uint16_t, std::uint8_t>({6, 3}, {6}, counting<std::uint8_t>(6), InputLayout::none);
  try {
    make_data_loader(unsigned_data, {});
    FAIL() << "u16 was accepted";
  } catch (const DatasetError& error) {
    EXPECT_STREQ(
        error.what(),
        "the data is u16, a type LibTorch does not have; set options.normalize = {.scale = 1.0} to get its "
        "values as float32");
  }
  DataLoaderOptions as_float;
  as_float.normalize = {.scale = 1.0, .mean = {}, .std = {}};
  EXPECT_EQ(make_data_loader(unsigned_data, as_float)->begin()->data.scalar_type(), torch::kFloat32);

  try {
    make_data_loader(open_images(), {.target_dtype = DType::u32});
    FAIL() << "target_dtype u32 was accepted";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("target_dtype u32"));
  }
}

TEST_F(TorchLoader, without_cuda_refuses_a_gpu_and_takes_auto_for_the_cpu) {
  if (detail::kTorchHasCuda) return;  // tests/gpu has the other half
  const Dataset dataset = open_images();
  const std::string expected = H5FEED_HAS_CUDA ? "this LibTorch (" TORCH_VERSION
                                                 ") has no CUDA; configure with -DCMAKE_PREFIX_PATH="
                                               : "device \"cuda:0\": h5feed was built without CUDA";
  for (const DataLoaderOptions& options :
       {DataLoaderOptions{.device = "cuda:0"}, DataLoaderOptions{.devices = {"cuda:0", "cuda:1"}}}) {
    try {
      make_data_loader(dataset, options);
      FAIL() << "no refusal";
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(expected));
    }
  }
  EXPECT_TRUE(make_data_loader(dataset, {.device = "auto"})->begin()->data.device().is_cpu());
}

TEST_F(TorchLoader, gives_half_and_bfloat16_and_channels_last_tensors) {
  const Dataset dataset = open_images();
  DataLoaderOptions options{.batch_size = 4};
  options.normalize = Normalize{.mean = {0.5}, .std = {0.25}};
  auto plain = make_data_loader(dataset, options);
  const torch::Tensor expected = plain->begin()->data;
  options.output_layout = OutputLayout::channels_last;
  for (const auto& [dtype, torch_dtype] :
       {std::pair{DType::f16, torch::kFloat16}, std::pair{DType::bf16, torch::kBFloat16},
        std::pair{DType::f32, torch::kFloat32}}) {
    options.output_dtype = dtype;
    auto loader = make_data_loader(dataset, options);
    const torch::Tensor data = loader->begin()->data;
    EXPECT_EQ(data.scalar_type(), torch_dtype);
    EXPECT_EQ(data.sizes(), expected.sizes());
    EXPECT_TRUE(data.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(torch::allclose(data.to(torch::kFloat32), expected, 0.01, 0.01));
  }
}

TEST_F(TorchLoader, leaves_torchs_thread_settings_alone) {
  const int threads = torch::get_num_threads();
  auto loader = make_data_loader(open_images(), {.batch_size = 4, .num_workers = 3});
  labels_of_epoch(*loader);
  EXPECT_EQ(torch::get_num_threads(), threads);
}

TEST_F(TorchLoader, DeliversNamedFieldsAsTensorsByName) {
  const fs::path file = directory_ / "fields.h5";
  {
    H5Writer writer(file, true);
    for (std::uint64_t group = 0; group < 6; ++group) {
      const std::string prefix = "/sample_" + std::to_string(group);
      write(writer, prefix + "/image", {2, 3}, counting<float>(6));
      write(writer, prefix + "/points", {group + 1, 2}, counting<std::int32_t>((group + 1) * 2));
      write(writer, prefix + "/wide", {1}, counting<std::uint64_t>(1));
    }
    writer.commit();
  }
  DatasetOptions options{.files = {file},
                         .data = "sample_*/image",
                         .sample = SampleUnit::dataset,
                         .input_layout = InputLayout::none};
  options.fields = {
      {.name = "points", .data = "sample_*/points", .collate = Collate::ragged, .dtype = DType::f32},
      {.name = "padded", .data = "sample_*/points", .collate = Collate::pad}};
  const auto loader = make_data_loader(
      Dataset::open(options), DataLoaderOptions{.batch_size = 4, .num_workers = 2, .provenance = true});
  const TorchBatch batch = *loader->begin();
  const TorchField& points = batch.fields.at("points");
  EXPECT_EQ(points.values.sizes().vec(), (std::vector<std::int64_t>{10, 2}));
  EXPECT_EQ(points.values.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(torch::equal(points.offsets, torch::tensor({0, 1, 3, 6, 10}, torch::kInt64)));
  EXPECT_FALSE(points.lengths.defined());
  const TorchField& padded = batch.fields.at("padded");
  EXPECT_EQ(padded.values.sizes().vec(), (std::vector<std::int64_t>{4, 4, 2}));
  EXPECT_TRUE(torch::equal(padded.lengths, torch::tensor({1, 2, 3, 4}, torch::kInt64)));
  EXPECT_EQ(padded.values[1].sum().item<std::int64_t>(), 0 + 1 + 2 + 3);
  EXPECT_TRUE(
      torch::equal(points.values.slice(0, 3, 6), padded.values[2].slice(0, 0, 3).to(torch::kFloat32)));
  ASSERT_EQ(batch.origins.size(), 4U);
  EXPECT_EQ(batch.origins[2].path, "/sample_2/image");

  options.fields = {{.name = "wide", .data = "sample_*/wide"}};
  const auto refused = make_data_loader(Dataset::open(options), DataLoaderOptions{});
  try {
    (void)*refused->begin();
    FAIL() << "u64 is delivered";
  } catch (const DatasetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("field \"wide\" is u64, a type LibTorch does not have"));
  }
}

}  // namespace
}  // namespace h5feed
