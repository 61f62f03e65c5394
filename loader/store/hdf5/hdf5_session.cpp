// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/hdf5_session.hpp"

#include <fmt/format.h>
#include <hdf5.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "base/byte_units.hpp"
#include "base/log_lock.hpp"
#include "h5feed/error.hpp"
#include "store/driver/unlocked_driver.hpp"
#include "store/format/byte_source.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/hdf5_versions.hpp"

namespace h5feed {

constinit Mutex hdf5_mutex;

namespace {

// Set by an exit handler that runs immediately before libhdf5's own.
bool library_ended H5FEED_GUARDED_BY(hdf5_mutex) = false;

// Set when the program closes libhdf5: all identifiers are of the past then, and others may have their
// numbers.
std::atomic<bool> library_closed = false;

// A property list of ours, which libhdf5 closes with all others when it is closed.
hid_t close_watcher H5FEED_GUARDED_BY(hdf5_mutex) = H5I_INVALID_HID;

void watch_for_close() H5FEED_REQUIRES(hdf5_mutex) {
  const auto note_close = [](hid_t, void*) noexcept -> herr_t {
    library_closed = true;
    return 0;
  };
  const hid_t kind =
      H5Pcreate_class(H5P_ROOT, "h5feed", nullptr, nullptr, nullptr, nullptr, note_close, nullptr);
  if (kind >= 0) close_watcher = H5Pcreate(kind);
  if (close_watcher < 0) throw std::bad_alloc();
}

std::atomic<bool> call_failed = false;

std::atomic<bool> plugins_kept_off = false;

constexpr unsigned without_filters(unsigned loadable) noexcept {
  return loadable & ~static_cast<unsigned>(H5PL_FILTER_PLUGIN);
}

// The lock of the thread that forks: a child then finds the mutex free and libhdf5 between two calls.
std::unique_ptr<MutexLock> fork_lock;

// Takes the log last: lines are written while the HDF5 mutex is held, never the other way round.
void before_fork() {
  auto lock = std::make_unique<MutexLock>(hdf5_mutex);
  fork_lock = std::move(lock);
  hold_log();
}

void after_fork() {
  release_log();
  const auto lock = std::move(fork_lock);
}

// Registered when the library is loaded, not with the first file: a thread may fork while another opens it.
[[maybe_unused]] const int fork_handlers = pthread_atfork(before_fork, after_fork, after_fork);

void note_end_of_library() {
  const MutexLock lock(hdf5_mutex);
  library_ended = true;
  if (!library_closed) H5Pclose(close_watcher);  // Its function may be unloaded before libhdf5
}

// Runs once, under the mutex, and again if it throws.
bool start_library() H5FEED_REQUIRES(hdf5_mutex) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  check_hdf5_version(major, minor, release);
  // H5open and the C++ API register exit handlers; ours is registered after them, so it runs before them.
  H5open();
  H5::H5Library::open();
  unsigned loadable = 0;
  if (plugins_kept_off && H5PLget_loading_state(&loadable) >= 0)
    H5PLset_loading_state(without_filters(loadable));
  watch_for_close();
  std::atexit(note_end_of_library);
  return true;
}

void ensure_started() H5FEED_REQUIRES(hdf5_mutex) {
  if (library_ended) throw FileError("the program is exiting and HDF5 has shut down; stop reading before");
  [[maybe_unused]] static const bool started = start_library();
  if (library_closed)
    throw FileError(
        "the program has closed libhdf5 (H5close), and with it the files of h5feed; leave that to its exit");
}

// Keeps the innermost reason of the error stack in the array of characters `text`.
herr_t keep_innermost(unsigned depth, const H5E_error2_t* error, void* text) noexcept {
  auto& out = *static_cast<std::array<char, 512>*>(text);
  if (depth == 0 && error->desc != nullptr) std::snprintf(out.data(), out.size(), "%s", error->desc);
  return 0;
}

}  // namespace

Hdf5ErrorHandler::Hdf5ErrorHandler(H5E_auto2_t handler, void* data) noexcept {
#ifndef H5_NO_DEPRECATED_SYMBOLS
  // Querying a version 2 handler is itself an error if the host program set one of version 1.
  unsigned is_version_2 = 1;
  H5Eauto_is_v2(H5E_DEFAULT, &is_version_2);
  if (is_version_2 == 0) {
    H5Eget_auto1(&previous_1_, &previous_data_);
  } else
#endif
  {
    H5Eget_auto2(H5E_DEFAULT, &previous_2_, &previous_data_);
  }
  H5Eset_auto2(H5E_DEFAULT, handler, data);
}

Hdf5ErrorHandler::~Hdf5ErrorHandler() {
#ifndef H5_NO_DEPRECATED_SYMBOLS
  if (previous_1_ != nullptr) {
    H5Eset_auto1(previous_1_, previous_data_);
    return;
  }
#endif
  H5Eset_auto2(H5E_DEFAULT, previous_2_, previous_data_);
}

// libhdf5 calls this at the end of each failing call, while its error stack is still complete. By the time
// the C++ API's exception is caught, further calls of that API have cleared the stack.
herr_t Hdf5Session::record(hid_t stack, void* session) noexcept {
  call_failed.store(true, std::memory_order_relaxed);
  return H5Ewalk2(stack, H5E_WALK_UPWARD, keep_innermost, &static_cast<Hdf5Session*>(session)->error_);
}

Hdf5Session::Hdf5Session() : lock_(hdf5_mutex) {
  ensure_started();
  handler_.emplace(record, this);
}

Hdf5Session::~Hdf5Session() = default;

std::string Hdf5Session::error() const {
  std::array<char, 512> reason = error_;
  // Of some calls that fail, such as H5Aiterate2 in 1.10, the reasons are on the stack, and nobody is told.
  if (reason.front() == '\0') H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &reason);
  if (reason.front() == '\0') return "no reason given by libhdf5";
  // libhdf5 reports failed system calls with times and addresses around the one useful part.
  constexpr std::string_view kSystemReason = "error message = '";
  std::string text = reason.data();
  if (const std::size_t begin = text.find(kSystemReason); begin != std::string::npos) {
    text.erase(0, begin + kSystemReason.size());
    text.erase(std::min(text.find('\''), text.size()));
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string Hdf5Session::error_and_cure() const {
  const std::string reason = error();
  // "bad version number for layout message", "unknown message ...": damaged bytes lead to the same reasons.
  const bool newer =
      reason.find("version") != std::string::npos || reason.find("unknown") != std::string::npos;
  if (!newer) return fmt::format("{}; {}", reason, kRestore);
  const std::string version = fmt::format("v{}{:02}", H5_VERS_MAJOR, H5_VERS_MINOR);  // as h5py names it
  return fmt::format(
      "{}; if a newer library than this libhdf5 {}.{}.{} wrote it, copy the file there by h5repack (its "
      "options --low and --high) into a format that this one reads, or have it written with libver=(\"{}\", "
      "\"{}\") of h5py, else {}",
      reason, H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE, version, version, kRestore);
}

bool Hdf5Session::release(hid_t id) noexcept {
  const MutexLock lock(hdf5_mutex);
  if (library_ended || library_closed) return true;
  const Hdf5ErrorHandler silence(nullptr, nullptr);
  return H5Idec_ref(id) >= 0;
}

PluginsOff::PluginsOff() noexcept {
  if (plugins_asked_for() || H5PLget_loading_state(&before_) < 0) return;
  changed_ = without_filters(before_) != before_ && H5PLset_loading_state(without_filters(before_)) >= 0;
}

PluginsOff::~PluginsOff() {
  if (changed_) H5PLset_loading_state(before_);
}

bool plugins_asked_for() noexcept {
  const char* const path = std::getenv("HDF5_PLUGIN_PATH");
  return path != nullptr && *path != '\0';
}

bool libhdf5_has_filter(unsigned id) {
  const Hdf5Session session;
  const PluginsOff off;
  return H5Zfilter_avail(static_cast<H5Z_filter_t>(id)) > 0;
}

void keep_plugins_off() noexcept { plugins_kept_off = !plugins_asked_for(); }

bool libhdf5_has_failed() noexcept { return call_failed.load(std::memory_order_relaxed); }

void limit_metadata_cache(const H5::FileAccPropList& access) {
  H5AC_cache_config_t config = {};
  config.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  if (H5Pget_mdc_config(access.getId(), &config) < 0)
    throw H5::PropListIException("H5Pget_mdc_config", "failed");
  config.set_initial_size = true;
  // Bytes as stored; in memory, entries of a chunk index take about eight times as much.
  config.initial_size = config.min_size = config.max_size = kMiB;
  if (H5Pset_mdc_config(access.getId(), &config) < 0)
    throw H5::PropListIException("H5Pset_mdc_config", "failed");
}

LargeMetadataCache::LargeMetadataCache(hid_t file) : file_(file) {
  before_.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  if (H5Fget_mdc_config(file_, &before_) < 0) return;
  H5AC_cache_config_t large = before_;
  large.set_initial_size = true;
  large.initial_size = large.min_size = large.max_size = 8 * kMiB;
  changed_ = H5Fset_mdc_config(file_, &large) >= 0;
}

LargeMetadataCache::~LargeMetadataCache() {
  before_.set_initial_size = true;
  before_.initial_size = before_.max_size;
  if (changed_) H5Fset_mdc_config(file_, &before_);
}

void read_unused_bits(const H5::FileAccPropList& access) {
  if (accept_unused_bits(access.getId()) < 0)
    throw H5::PropListIException("H5Pset_relax_file_integrity_checks", "failed");
}

void limit_read_attempts(const H5::FileAccPropList& access) {
  constexpr unsigned kAttempts = 29;  // The pauses between them take 2^29 ns together
  if (H5Pset_metadata_read_attempts(access.getId(), kAttempts) < 0)
    throw H5::PropListIException("H5Pset_metadata_read_attempts", "failed");
}

bool flush_for_program(const std::string& name) {
  const std::optional<FileIdentity> identity = find_file_identity(name);
  if (!identity) return false;
  const Hdf5Session session;
  try {
    return flush_for_program(*identity);
  } catch (const H5::Exception&) {
    throw FileError(fmt::format(
        "{}: the program has it open for writing, and libhdf5 cannot write what it wrote: {}; make "
        "room, or close it before",
        name, session.error()));
  }
}

hid_t open_for_reading(const std::string& name, bool swmr_writer) {
  const H5::FileAccPropList access;
  use_unlocked_driver(access);
  limit_metadata_cache(access);
  read_unused_bits(access);
  if (swmr_writer) limit_read_attempts(access);
  const unsigned flags = H5F_ACC_RDONLY | (swmr_writer ? H5F_ACC_SWMR_READ : 0U);
  try {
    return retain(H5::H5File(name, flags, H5::FileCreatPropList::DEFAULT, access));
  } catch (const H5::Exception&) {
    return H5I_INVALID_HID;
  }
}

bool reads_beside_writer(const H5::H5File& file) {
  unsigned intent = 0;
  return H5Fget_intent(file.getId(), &intent) >= 0 && (intent & H5F_ACC_SWMR_READ) != 0;
}

void forget_metadata(const H5::DataSet& dataset) {
  if (H5Drefresh(dataset.getId()) < 0) throw H5::DataSetIException("H5Drefresh", "failed");
}

hid_t retain(const H5::IdComponent& object) {
  object.incRefCount();
  return object.getId();
}

void check_hdf5_version(unsigned major, unsigned minor, unsigned release) {
  if (major == H5_VERS_MAJOR && minor == H5_VERS_MINOR && release == H5_VERS_RELEASE) return;
  throw VersionError(fmt::format(
      "libhdf5 {}.{}.{} is loaded, but h5feed was built with {}.{}.{}; load that one or build h5feed again",
      major, minor, release, H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE));
}

LibHdf5 libhdf5_facts() {
  const Hdf5Session session;
  LibHdf5 facts;
  facts.header_version = fmt::format("{}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) >= 0) {
    facts.version = fmt::format("{}.{}.{}", major, minor, release);
  }
  hbool_t thread_safe = false;
  facts.thread_safe = H5is_library_threadsafe(&thread_safe) >= 0 && thread_safe;
  unsigned folders = 0;
  if (!plugins_asked_for() || H5PLsize(&folders) < 0) return facts;
  for (unsigned i = 0; i < folders; ++i) {
    const ssize_t length = H5PLget(i, nullptr, 0);
    if (length <= 0) continue;
    std::string folder(static_cast<std::size_t>(length), '\0');
    H5PLget(i, folder.data(), folder.size() + 1);
    facts.plugin_folders.push_back(std::move(folder));
  }
  return facts;
}

}  // namespace h5feed
