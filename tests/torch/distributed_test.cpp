// SPDX-License-Identifier: Apache-2.0
// examples/distributed.cpp, run as one, two and four processes on one machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/processes.hpp"

namespace h5feed::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

enum class Launcher { torchrun, open_mpi, slurm };

std::map<std::string, std::string> environment_of(Launcher launcher, int rank, int world_size) {
  const std::string r = std::to_string(rank);
  const std::string w = std::to_string(world_size);
  // The test's own launcher must not shine through, nor do processes share two cores well.
  std::map<std::string, std::string> environment = {{"OMP_NUM_THREADS", "1"}};
  switch (launcher) {
    case Launcher::torchrun:
      environment.insert({{"RANK", r}, {"WORLD_SIZE", w}, {"LOCAL_RANK", r}});
      break;
    case Launcher::open_mpi:
      environment.insert(
          {{"OMPI_COMM_WORLD_RANK", r}, {"OMPI_COMM_WORLD_SIZE", w}, {"OMPI_COMM_WORLD_LOCAL_RANK", r}});
      break;
    case Launcher::slurm:
      environment.insert({{"SLURM_PROCID", r}, {"SLURM_NTASKS", w}, {"SLURM_LOCALID", r}});
      break;
  }
  return environment;
}

/// One step as rank 0 told it.
struct Step {
  int number = 0;
  double loss = 0;
  std::string samples;
};

class Distributed : public ::testing::Test {
 protected:
  using Ranks = std::vector<std::unique_ptr<test::Process>>;

  // 203 samples in batches of 32: the last batch has 11, of which four ranks have 3, 3, 3 and 2.
  std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {H5FEED_DISTRIBUTED, set_.path().string(), "--log-steps"};
    const std::map<std::string, std::string> unless_given = {
        {"--global-batch", "32"}, {"--epochs", "2"}, {"--seed", "5"}};
    for (const auto& [name, value] : unless_given) {
      if (std::ranges::find(more, name) == more.end()) all.insert(all.end(), {name, value});
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Ranks start(int world_size, const std::vector<std::string>& more = {},
              Launcher launcher = Launcher::torchrun) {
    const std::string meeting = directory_ / ("meet-" + std::to_string(meetings_++));
    Ranks ranks;
    for (int rank = 0; rank < world_size; ++rank) {
      std::vector<std::string> all = words(more);
      all.insert(all.end(), {"--meet", meeting});
      ranks.push_back(std::make_unique<test::Process>(directory_.path(), all,
                                                      environment_of(launcher, rank, world_size)));
    }
    return ranks;
  }

  // What rank 0 said; all ranks ended well.
  std::string run(int world_size, const std::vector<std::string>& more = {},
                  Launcher launcher = Launcher::torchrun) {
    const Ranks ranks = start(world_size, more, launcher);
    for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0) << rank->output();
    return ranks.front()->output();
  }

  static std::vector<Step> steps_of(const std::string& output) {
    std::vector<Step> steps;
    for (const std::string& line : lines_with(output, "step ")) {
      Step step;
      std::istringstream in(line);
      std::string word;
      if (in >> word >> step.number >> word >> step.loss >> word >> step.samples && word == "samples") {
        steps.push_back(step);
      }
    }
    return steps;
  }

  static void expect_same_curve(const std::vector<Step>& a, const std::vector<Step>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].number, b[i].number);
      EXPECT_EQ(a[i].samples, b[i].samples) << "step " << a[i].number;
      EXPECT_NEAR(a[i].loss, b[i].loss, 1e-4) << "step " << a[i].number;
    }
  }

  const test::SampleSet set_{{.shape = {203, 8, 8}, .chunk_shape = {20, 8, 8}, .gzip = 4}};
  const test::TempDir directory_;
  int meetings_ = 0;
};

// The program itself compares the weights of all ranks bit by bit at the end, and counts each sample.
TEST_F(Distributed, several_processes_train_what_one_trains) {
  const std::string alone = run(1);
  const std::vector<Step> expected = steps_of(alone);
  ASSERT_THAT(expected, SizeIs(14));
  EXPECT_LT(expected.back().loss, expected.front().loss);
  EXPECT_THAT(run(2), AllOf(HasSubstr("2 ranks by torchrun"), HasSubstr("on every rank, after 14 steps"),
                            HasSubstr("epoch 1: each of 203 samples once"),
                            HasSubstr("epoch 2: each of 203 samples once")));
  expect_same_curve(steps_of(run(2, {}, Launcher::slurm)), expected);
  const std::string four = run(4, {}, Launcher::open_mpi);
  EXPECT_THAT(four,
              AllOf(HasSubstr("4 ranks by mpirun (Open MPI)"), HasSubstr("on every rank, after 14 steps"),
                    HasSubstr("epoch 2: each of 203 samples once")));
  expect_same_curve(steps_of(four), expected);
}

TEST_F(Distributed, two_processes_go_on_where_four_were_stopped) {
  const std::vector<Step> expected = steps_of(run(1));
  const std::string checkpoint = directory_ / "checkpoint.pt";
  const std::string before = run(4, {"--checkpoint", checkpoint, "--stop-after-steps", "9"});
  EXPECT_THAT(before, HasSubstr("saved after step 9"));
  const std::string after = run(2, {"--checkpoint", checkpoint});
  EXPECT_THAT(after, HasSubstr("resumed after step 9"));
  std::vector<Step> both = steps_of(before);
  for (const Step& step : steps_of(after)) both.push_back(step);
  expect_same_curve(both, expected);
}

TEST_F(Distributed, a_checkpoint_is_saved_every_few_steps) {
  const std::string checkpoint = directory_ / "checkpoint.pt";
  const std::vector<std::string> words = {"--checkpoint", checkpoint, "--save-every", "5"};
  EXPECT_THAT(run(2, words), AllOf(HasSubstr("saved after step 5"), HasSubstr("saved after step 10"),
                                   Not(HasSubstr("saved after step 14"))));
  EXPECT_THAT(run(1, words), AllOf(HasSubstr("resumed after step 10"), HasSubstr("after 14 steps")));
}

// The seventh step is the first epoch's last one.
TEST_F(Distributed, a_run_that_was_stopped_at_an_epochs_end_goes_on_with_the_next) {
  const std::vector<Step> expected = steps_of(run(1));
  const std::string checkpoint = directory_ / "checkpoint.pt";
  const std::string before = run(1, {"--checkpoint", checkpoint, "--stop-after-steps", "7"});
  EXPECT_THAT(before, AllOf(HasSubstr("epoch 1: each of 203 samples once"), HasSubstr("saved after step 7")));
  const std::string after = run(2, {"--checkpoint", checkpoint, "--stop-after-steps", "9"});
  EXPECT_THAT(run(2, {"--checkpoint", checkpoint, "--stop-after-steps", "9"}),
              HasSubstr("on every rank, after 9 steps"))
      << "that stop is reached already";
  const std::string rest = run(1, {"--checkpoint", checkpoint});
  EXPECT_THAT(rest, AllOf(HasSubstr("epoch 2: mean loss of 5 steps"), HasSubstr("after 14 steps")));
  std::vector<Step> all = steps_of(before);
  for (const Step& step : steps_of(after)) all.push_back(step);
  for (const Step& step : steps_of(rest)) all.push_back(step);
  expect_same_curve(all, expected);
}

TEST_F(Distributed, a_checkpoint_that_some_ranks_do_not_see_is_refused) {
  const std::string checkpoint = directory_ / "checkpoint.pt";
  run(1, {"--checkpoint", checkpoint, "--stop-after-steps", "2"});
  const std::string meeting = directory_ / "meet";
  Ranks ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::make_unique<test::Process>(
        directory_.path(),
        words({"--meet", meeting, "--checkpoint", rank == 0 ? checkpoint : checkpoint + ".none"}),
        environment_of(Launcher::torchrun, rank, 2)));
  }
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->wait(), 1);
    EXPECT_THAT(rank->output(),
                HasSubstr("the checkpoint (there or not; each rank reads it) of 1 of 2 ranks"));
  }
}

TEST_F(Distributed, a_rank_that_dies_ends_the_others_with_a_message) {
  Ranks ranks = start(4, {"--epochs", "1000000"});
  ranks[0]->wait_for("step 3 ");
  // The signal that a rank gets if it is just writing to the one that dies, which it does only now and then.
  for (const std::size_t rank : {0U, 1U, 3U}) ranks[rank]->send(SIGPIPE);
  ranks[2]->kill();
  for (const std::size_t rank : {0U, 1U, 3U}) {
    EXPECT_EQ(ranks[rank]->wait(), 1);
    EXPECT_THAT(ranks[rank]->output(), HasSubstr("distributed: rank " + std::to_string(rank) + " of 4: "));
    EXPECT_THAT(ranks[rank]->output(), HasSubstr("another rank has ended or does not answer"));
  }
}

TEST_F(Distributed, ranks_with_different_orders_are_refused_on_all) {
  const std::string meeting = directory_ / "meet";
  Ranks ranks;
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<std::string> more = {"--meet", meeting, "--shuffle", rank == 0 ? "full" : "sequential"};
    ranks.push_back(std::make_unique<test::Process>(directory_.path(), words(more),
                                                    environment_of(Launcher::torchrun, rank, 2)));
  }
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->wait(), 1);
    EXPECT_THAT(rank->output(),
                HasSubstr("the plan (data, order and sharding) of 1 of 2 ranks is not that of rank 0"));
  }
}

TEST_F(Distributed, rank_0_draws_the_seed_for_all_where_none_is_given) {
  // Each rank is given another number: that of rank 0 counts.
  const std::string meeting = directory_ / "meet";
  Ranks ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::make_unique<test::Process>(
        directory_.path(), words({"--meet", meeting, "--seed", std::to_string(11 + rank), "--epochs", "1"}),
        environment_of(Launcher::torchrun, rank, 2)));
  }
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0) << rank->output();
  EXPECT_THAT(ranks[0]->output(), AllOf(HasSubstr("seed 11,"), HasSubstr("each of 203 samples once")));
}

TEST_F(Distributed, a_wrong_environment_is_named) {
  const auto refusal = [&](const std::map<std::string, std::string>& environment) {
    test::Process process(directory_.path(), words({}), environment);
    EXPECT_EQ(process.wait(), 1);
    return process.output();
  };
  EXPECT_THAT(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
              HasSubstr("RANK is 2 and WORLD_SIZE 2; the rank must be 0 to the world size - 1"));
  EXPECT_THAT(refusal({{"RANK", "0"}}), HasSubstr("RANK is set and WORLD_SIZE is not"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "99999"}}),
              HasSubstr("MASTER_PORT is 99999; a port is 1 to 65535"));
  EXPECT_THAT(refusal({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_NUM_NODES", "2"}}),
              HasSubstr("on several machines; set MASTER_ADDR"));
}

TEST_F(Distributed, what_is_wrong_is_said_in_one_line) {
  const auto said = [&](const std::vector<std::string>& more, int code) {
    test::Process process(directory_.path(), words(more), {});
    EXPECT_EQ(process.wait(), code) << process.output();
    return process.output();
  };
  EXPECT_THAT(said({"--classes", "2"}, 1), EndsWith(" is out of bounds.\n"))
      << "without LibTorch's backtrace";
  EXPECT_THAT(said({"--device", "tpu"}, 2), EndsWith("--device tpu: use auto, cpu, cuda or cuda:N\n"));
  EXPECT_THAT(said({"--global-batch", "0"}, 2), HasSubstr("--global-batch: 0 is not a number from 1\n"));
}

}  // namespace
}  // namespace h5feed::test
