// SPDX-License-Identifier: Apache-2.0
// h5feed-reader VERSION MEMORY-BYTES SECONDS: reads HDF5 files for the process at the other end of descriptor
// 3, which started it, until that closes the connection. It may crash, hang or be taken over by a file: it
// has limits, writes no file, and is not trusted.
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "store/isolation/requests.hpp"
#include "store/serve/request_server.hpp"

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define H5FEED_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define H5FEED_SANITIZED 1
#endif

namespace h5feed {
namespace {

// A request names paths and a dataset's description.
constexpr std::uint64_t kMostRequestBytes = std::uint64_t{64} << 20;

bool receive(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(kIsolationDescriptor, bytes.data(), bytes.size(), 0);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(kIsolationDescriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return false;
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

void limit(__rlimit_resource resource, std::uint64_t most) {
  const rlimit limits{most, most};
  ::setrlimit(resource, &limits);
}

void limit_process([[maybe_unused]] std::uint64_t memory_bytes) {
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  rlimit files{};
  // libhdf5 opens all sources of a virtual dataset, and takes those that it cannot open for missing ones.
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) limit(RLIMIT_NOFILE, files.rlim_max);
#ifndef H5FEED_SANITIZED  // The sanitizers reserve terabytes
  if (memory_bytes > 0) limit(RLIMIT_AS, memory_bytes);
#endif
}

// Ends this process when the other one has closed the connection, also while libhdf5 does not return.
void* end_with_connection(void*) {
  pollfd connection{kIsolationDescriptor, POLLRDHUP, 0};
  while (::poll(&connection, 1, -1) < 0 && errno == EINTR) {
  }
  std::_Exit(EXIT_FAILURE);
}

// Without the thread, if the system starts none, the alarm ends the process.
void watch_connection() {
  constexpr std::size_t kStackBytes = 64 << 10;  // It counts for the limit of memory
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t watch{};
  pthread_create(&watch, &attributes, end_with_connection, nullptr);
  pthread_attr_destroy(&attributes);
}

// Returns whether every request was answered until the other process closed the connection.
bool serve(unsigned seconds) {
  RequestServer server;
  std::vector<std::byte> request;
  for (std::uint64_t size = 0; receive(std::as_writable_bytes(std::span(&size, 1)));) {
    if (size > kMostRequestBytes) return false;
    request.resize(static_cast<std::size_t>(size));
    if (!receive(request)) return false;
    // The other process ends this one in time, unless it has died meanwhile.
    constexpr unsigned kGrace = 5;
    ::alarm(seconds + kGrace);
    const RequestServer::Answer answer = server.answer(request);
    if (answer.wanted) {
      WireWriter head;
      head.put(answer.outcome);
      head.put(std::uint64_t{answer.bytes.size()});
      if (!send(head.bytes()) || !send(answer.bytes)) return false;
    }
    ::alarm(0);
  }
  return true;
}

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) std::_Exit(kReaderWrongUse);
  return number;
}

}  // namespace
}  // namespace h5feed

int main(int argc, char** argv) {
  using namespace h5feed;
  if (argc != 4 || std::strcmp(argv[1], kIsolationVersion) != 0) return kReaderWrongUse;
  limit_process(number_of(argv[2]));
  keep_plugins_off();
  watch_connection();
  const auto seconds = static_cast<unsigned>(number_of(argv[3]));
  bool served = false;
  try {
    served = serve(seconds);
  } catch (const std::exception&) {
    // The other process sees the end of the connection.
  }
  // Without libhdf5's exit handlers, which may crash over what a damaged file has left behind.
  std::_Exit(served ? 0 : EXIT_FAILURE);
}
