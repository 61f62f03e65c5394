// SPDX-License-Identifier: Apache-2.0
// The limits of going on without bad data: the quota, the list of bad chunks, and what fails all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/loaders/planted_faults.hpp"

namespace h5feed::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;

TEST_F(Faults, names_each_bad_chunk_once_in_the_log_and_in_the_list) {
  const std::filesystem::path list = dir_ / "bad.tsv";
  DataLoaderOptions with = options(OnError::skip, 3);
  with.bad_list = list;
  {
    DataLoader loader(open(set_), with);
    for (int epoch = 0; epoch < 3; ++epoch) rest_of_epoch(loader);
  }
  const std::vector<std::string> lines = lines_of(text_of(list));
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0], "file\tdataset\tchunk\taddress\tfilters\tsamples\treason");
  EXPECT_THAT(listed_chunks(list), UnorderedElementsAre("17,0,0", "64,0,0"));
  const auto of_17 =
      std::ranges::find_if(lines, [](const auto& line) { return line.find("\t17,0,0\t") != line.npos; });
  EXPECT_THAT(*of_17, StartsWith(set_.path().string() + "\t/images\t17,0,0\t" +
                                 std::to_string(chunk_offset(set_, 17)) +
                                 "\tgzip+fletcher32\t170-179\tis corrupt: "));
  std::vector<std::string> named;
  std::ranges::copy_if(log_.lines(), std::back_inserter(named),
                       [](const std::string& line) { return line.find("on_error") != line.npos; });
  ASSERT_THAT(named, SizeIs(2));
  std::ranges::sort(named);
  EXPECT_THAT(
      named[0],
      AllOf(HasSubstr(":/images: chunk (17,0,0) (samples 170-179) is corrupt: "), HasSubstr(" [address "),
            HasSubstr(", gzip+fletcher32; on_error = skip: samples that need it are left out]")));
  // A later loader adds nothing that the list has.
  deliveries_of(open(set_), with);
  EXPECT_EQ(lines_of(text_of(list)), lines);
}

TEST_F(Faults, several_loaders_append_whole_lines_to_one_list) {
  const std::filesystem::path list = dir_ / "bad.tsv";
  std::vector<std::thread> ranks;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      DataLoaderOptions with = options(OnError::skip, 2);
      with.rank = rank;
      with.world_size = 4;
      with.max_bad_share = 1;
      with.bad_list = list;
      deliveries_of(open(set_), with);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const std::vector<std::string> chunks = listed_chunks(list);
  EXPECT_THAT(std::set<std::string>(chunks.begin(), chunks.end()), ElementsAre("17,0,0", "64,0,0"));
  EXPECT_EQ(
      std::ranges::count(lines_of(text_of(list)), "file\tdataset\tchunk\taddress\tfilters\tsamples\treason"),
      1);
}

TEST_F(Faults, more_bad_samples_than_the_quota_allows_throw_and_say_what_to_do) {
  for (const OnError on_error : {OnError::skip, OnError::replace}) {
    for (const std::int64_t workers : {0, 3}) {
      DataLoaderOptions with = options(on_error, workers);
      with.shuffle = false;
      with.batch_size = 10;
      with.max_bad_share = 0.015;
      with.bad_list = dir_ / "bad.tsv";
      DataLoader loader(open(set_), with);
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (int batch = 0; batch < 64; ++batch) ASSERT_TRUE(loader.next()) << batch;
        EXPECT_THAT(
            without_folder(refusal_of<ChunkError>([&] { loader.next(); }), dir_.path()),
            AllOf(StartsWith(
                      "epoch " + std::to_string(epoch) +
                      ", batch 64: 20 of the 1,000 samples of this rank's epoch cannot be read, more than "
                      "max_bad_share 0.015 allows (15); the last fault: "),
                  HasSubstr(":/images: chunk ("),
                  HasSubstr("; all are in bad.tsv; restore the data, or raise max_bad_share")));
        while (loader.next()) {
        }
      }
      EXPECT_EQ(loader.stats().errors, 2u);
    }
  }
}

TEST_F(Faults, a_share_of_exactly_the_quota_is_allowed) {
  DataLoaderOptions with = options(OnError::skip, 2);
  with.max_bad_share = 0.02;
  EXPECT_THAT(samples_of(deliveries_of(open(set_), with)), SizeIs(980));
  with.max_bad_share = 0.019;
  EXPECT_NE(refusal_of<ChunkError>([&] { deliveries_of(open(set_), with); }), "accepted");
}

TEST_F(Faults, a_share_of_one_is_never_exceeded_by_ranks_with_more_chunks) {
  // Rank by rank 3 and 2 chunks of 17 samples, all but one of them bad; `pad` makes it 3 each.
  const SampleSet set({.shape = {85, 4, 4}, .chunk_shape = {17, 4, 4}, .gzip = 1, .fletcher32 = true});
  damage_chunks(set, {0, 1, 3, 4});
  for (const Uneven uneven : {Uneven::exact, Uneven::pad}) {
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      DataLoaderOptions with = options(OnError::replace);
      with.batch_size = 5;
      with.rank = rank;
      with.world_size = 2;
      with.shard = Shard::by_chunk;
      with.uneven = uneven;
      with.max_bad_share = 1;
      DataLoader loader(open(set), with);
      for (int epoch = 0; epoch < 4; ++epoch) EXPECT_NO_THROW(rest_of_epoch(loader)) << "rank " << rank;
      EXPECT_GT(loader.stats().samples_replaced, 0u);
    }
  }
}

TEST_F(Faults, a_sample_without_replacement_is_an_error_that_counts_what_was_tried_and_advises_once) {
  const SampleSet set({.shape = {34, 4, 4}, .chunk_shape = {17, 4, 4}, .gzip = 1, .fletcher32 = true});
  damage_chunks(set, {0, 1});
  DataLoaderOptions with = options(OnError::replace);
  with.shuffle = false;
  with.max_bad_share = 1;
  DataLoader loader(open(set), with);
  const std::string refusal = refusal_of<ChunkError>([&] { loader.next(); });
  EXPECT_THAT(refusal,
              StartsWith("epoch 0, batch 0: no replacement for sample 0 was found: it cannot be read, "
                         "nor can the "));
  std::smatch found;
  ASSERT_TRUE(
      std::regex_search(refusal, found, std::regex("nor can the ([0-9]+) others tried in its place; ")));
  EXPECT_LE(std::stoi(found[1]), 33);
  EXPECT_GE(std::stoi(found[1]), 20) << "100 draws of 34 samples";
  EXPECT_THAT(refusal, EndsWith("; restore the file from a good copy"));
}

TEST_F(Faults, the_quota_counts_alike_whether_a_bad_chunk_is_found_or_known) {
  for (const std::int64_t workers : {0, 3}) {
    DataLoaderOptions with = options(OnError::skip, workers);
    with.shuffle = false;
    with.batch_size = 20;
    with.max_bad_share = 0.015;
    // Batch 8 fails before its bad chunk, 17, is read. Batch 10 finds it.
    with.sampler = make_sampler([](std::uint64_t) {
      std::vector<std::int64_t> samples(kFaultSamples);
      std::iota(samples.begin(), samples.end(), 0);
      samples[200] = 175;
      return samples;
    });
    with.transform = [](const SampleView&, const SampleKey& key) {
      if (key.sample == 165) throw std::runtime_error("of transform");
    };
    DataLoader loader(open(set_), with);
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<int> failed;
      for (int batch = 0; batch < 50; ++batch) {
        try {
          loader.next();
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "of transform");
          failed.push_back(batch);
        }
      }
      EXPECT_FALSE(loader.next());
      EXPECT_THAT(failed, ElementsAre(8)) << "epoch " << epoch << ", workers " << workers;
    }
  }
}

TEST_F(Faults, a_batch_that_alone_exceeds_the_quota_counts_although_a_function_throws_first) {
  for (const std::int64_t workers : {0, 3}) {
    DataLoaderOptions with = options(OnError::skip, workers);
    with.shuffle = false;
    with.batch_size = 20;
    with.max_bad_share = 0.005;
    // The transform throws in batch 8, before the other chunk of the batch, which is bad, is read. Batch 10
    // has one bad sample, and exceeds the quota only together with batch 8.
    with.sampler = make_sampler([](std::uint64_t) {
      std::vector<std::int64_t> samples(kFaultSamples);
      std::iota(samples.begin(), samples.end(), 0);
      samples[200] = 175;
      return samples;
    });
    with.transform = [](const SampleView&, const SampleKey& key) {
      if (key.sample == 165) throw std::runtime_error("of transform");
    };
    DataLoader loader(open(set_), with);
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<int> failed;
      for (int batch = 0; batch < 50; ++batch) {
        try {
          loader.next();
        } catch (const ChunkError&) {
          failed.push_back(batch);
        }
      }
      EXPECT_FALSE(loader.next());
      EXPECT_THAT(failed, ElementsAre(8, 10, 32)) << "epoch " << epoch << ", workers " << workers;
    }
  }
}

TEST_F(Faults, the_consumers_functions_and_samplers_still_fail) {
  DataLoaderOptions with = options(OnError::skip, 2);
  with.collate_fn = [](Batch& batch) {
    if (batch.number == 3) throw FileError("of collate_fn");
  };
  DataLoader loader(open(set_), with);
  for (int batch = 0; batch < 3; ++batch) loader.next();
  EXPECT_EQ(refusal_of<FileError>([&] { loader.next(); }), "of collate_fn");
  EXPECT_TRUE(loader.next());
}

TEST_F(Faults, refuses_options_that_contradict) {
  const auto refused = [&](double share, const std::filesystem::path& list,
                           OnError on_error = OnError::skip) {
    DataLoaderOptions with = options(on_error);
    with.max_bad_share = share;
    with.bad_list = list;
    return without_folder(refusal<OptionError>(open(set_), with), dir_.path());
  };
  EXPECT_EQ(refused(-0.1, {}), "max_bad_share must be 0 to 1; got -0.1");
  EXPECT_EQ(refused(1.5, {}), "max_bad_share must be 0 to 1; got 1.5");
  EXPECT_EQ(refused(std::nan(""), {}), "max_bad_share must be 0 to 1; got nan");
  EXPECT_EQ(refused(0, dir_ / "x", OnError::fail),
            "bad_list needs a loader that goes on after a fault; set on_error = skip or replace, or leave it "
            "unset");
  EXPECT_EQ(refused(0, dir_ / "none" / "x"),
            "bad_list: none/x cannot be written: No such file or directory; name a file in a folder that "
            "exists and "
            "may be written");
  EXPECT_THAT(refused(0, dir_.path()), HasSubstr("cannot be written: Is a directory"));
  EXPECT_EQ(refused(0, set_.path()), "bad_list: " + set_.path().string() +
                                         " exists and is not a list of bad chunks; name another file");
  EXPECT_EQ(refused(0, "/dev/full"),
            "bad_list: /dev/full cannot be written; name a regular file where there is space");
}

}  // namespace
}  // namespace h5feed::test
