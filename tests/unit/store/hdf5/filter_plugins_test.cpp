// SPDX-License-Identifier: Apache-2.0
// libhdf5 loads filter plugins for h5feed only where HDF5_PLUGIN_PATH asks for them. A binary of its own,
// since what a process has loaded stays.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/hdf5_session.hpp"
#include "store/isolation/reader_process.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

constexpr unsigned kPlugin = 301;  // support/files/identity_plugin.cpp
constexpr const char* kFolder = H5FEED_TEST_PLUGINS;

unsigned loadable() {
  unsigned state = 0;
  require(H5PLget_loading_state(&state), "H5PLget_loading_state");
  return state;
}

class FilterPlugins : public testing::Test {
 protected:
  FilterPlugins() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // the child starts libhdf5 itself
    ::unsetenv("HDF5_PLUGIN_PATH");
    ::unsetenv("HDF5_PLUGIN_PRELOAD");  // the presets of sanitizers forbid all plugins by it
  }
  ~FilterPlugins() override { ::unsetenv("HDF5_PLUGIN_PATH"); }
};

// One test, since a plugin stays loaded.
TEST_F(FilterPlugins, are_loaded_only_where_the_user_named_their_folder) {
  EXPECT_FALSE(plugins_asked_for());
  require(H5PLprepend(kFolder), "H5PLprepend");  // in place of the folder that libhdf5 was built with
  const unsigned before = loadable();
  EXPECT_NE(before & static_cast<unsigned>(H5PL_FILTER_PLUGIN), 0U);
  EXPECT_FALSE(libhdf5_has_filter(kPlugin));
  EXPECT_EQ(loadable(), before) << "the host's setting was not restored";
  EXPECT_TRUE(libhdf5_facts().plugin_folders.empty());

  ::setenv("HDF5_PLUGIN_PATH", "", 1);
  EXPECT_FALSE(libhdf5_has_filter(kPlugin));
  ::setenv("HDF5_PLUGIN_PATH", kFolder, 1);
  EXPECT_TRUE(libhdf5_has_filter(kPlugin));
  EXPECT_EQ(loadable(), before);
  EXPECT_EQ(libhdf5_facts().plugin_folders.front(), kFolder);

  ::unsetenv("HDF5_PLUGIN_PATH");
  EXPECT_TRUE(libhdf5_has_filter(kPlugin)) << "the process has it now";
}

int ends_with(bool asked) {
  if (asked) ::setenv("HDF5_PLUGIN_PATH", kFolder, 1);
  keep_plugins_off();
  libhdf5_facts();  // starts libhdf5
  H5PLprepend(kFolder);
  return H5Zfilter_avail(kPlugin) > 0 ? 1 : 0;
}

TEST_F(FilterPlugins, are_off_in_programs_of_our_own) {
  EXPECT_EXIT(std::_Exit(ends_with(false)), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::_Exit(ends_with(true)), testing::ExitedWithCode(1), "");
}

TEST_F(FilterPlugins, are_loaded_by_the_process_of_isolation_only_if_asked_for) {
  const TempDir dir;
  const std::filesystem::path path = dir / "train.h5";
  H5TestFile(path).create({.path = "images", .shape = {4, 6}});
  const auto has = [&] {
    const auto process = std::make_shared<ReaderProcess>(IsolationLimits{});
    return H5File::open(path, path, process)->has_filter(kPlugin);
  };
  EXPECT_FALSE(has());
  ::setenv("HDF5_PLUGIN_PATH", kFolder, 1);
  EXPECT_TRUE(has());
}

}  // namespace
}  // namespace h5feed::test
