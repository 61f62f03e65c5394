// SPDX-License-Identifier: Apache-2.0
// h5feed env on the tests' own NVML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "h5feed/config.hpp"
#include "support/programs/fake_gpus.hpp"

namespace h5feed::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class Env : public Gpus {};

TEST_F(Env, shows_versions_limits_and_gpus) {
  const ProgramResult result = run({"env"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* text :
       {"HDF5 ", "thread-safe", "gzip shuffle fletcher32 szip", "usable (bound by", "memlock ",
        "driver 580.65.06", "NVIDIA H200 (00000000:3B:00.0): 300 B of 1000 B free", "used by     4242",
        ": 500 B"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
  const json facts = json::parse(run({"env", "--json"}).out);
  EXPECT_EQ(facts["hdf5"]["version"], facts["hdf5"]["compiled_with"]);
  EXPECT_GE(facts["machine"]["cores"], 1);
  EXPECT_EQ(facts["nvidia"]["gpus"].size(), 2u);
  EXPECT_EQ(facts["nvidia"]["gpus"][0]["memory_free_bytes"], 300);
  EXPECT_TRUE(facts["numa"].is_array());
  EXPECT_EQ(facts["build"]["image_codecs_built"], H5FEED_HAS_OPENCV != 0);
  EXPECT_THAT(result.out,
              HasSubstr(H5FEED_HAS_OPENCV ? "images        decoded by OpenCV" : "images        not decoded"));
}

TEST_F(Env, works_without_a_driver) {
  const ScopedVariable none("H5FEED_NVML", "/no/such/libnvidia-ml.so.1");
  const ProgramResult result = run({"env"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("no driver: NVML cannot be loaded (/no/such/libnvidia-ml.so.1: "));
  EXPECT_EQ(json::parse(run({"env", "--json"}).out)["nvidia"]["driver"], json());
}

}  // namespace
}  // namespace h5feed::test
