// SPDX-License-Identifier: Apache-2.0
// Stands in for h5feed-reader. H5FEED_FAKE_READER says what it does with every request: "crash", "exit",
// "hang" (after creating the file H5FEED_FAKE_READER_BEGUN, if that is set), "close" (the connection, and
// stay), "outcome" (one that does not exist), "endless" (announce more
// than there is memory), "short" (a result that ends too early), "noise" (a result of random bytes) or "wait"
// (until the path H5FEED_FAKE_READER_UNTIL exists; the result is the number of files closed, in one byte).
// The request that opens a file is answered first, with the last three.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "store/isolation/requests.hpp"

namespace h5feed::test {
namespace {

void send(std::span<const std::byte> bytes) {
  if (::send(kIsolationDescriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) std::_Exit(1);
}

void reply(std::uint8_t outcome, std::uint64_t size, std::span<const std::byte> bytes) {
  WireWriter head;
  head.put(outcome);
  head.put(size);
  send(head.bytes());
  if (!bytes.empty()) send(bytes);
}

void reply_with_noise(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(1 + random() % 200);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
  reply(0, bytes.size(), bytes);
}

void reply_later(std::uint64_t closed) {
  const char* const until = std::getenv("H5FEED_FAKE_READER_UNTIL");
  while (::access(until, F_OK) != 0) ::usleep(1000);
  const std::array<std::byte, 1> bytes = {static_cast<std::byte>(closed)};
  reply(0, bytes.size(), bytes);
}

void act(std::string_view what, Request request, unsigned seed, std::uint64_t closed) {
  if (what == "crash") ::raise(SIGSEGV);
  if (what == "exit") std::_Exit(3);
  if (what == "hang" || what == "close") {
    const char* const begun = std::getenv("H5FEED_FAKE_READER_BEGUN");
    if (begun != nullptr) ::close(::creat(begun, 0600));
    if (what == "close") ::close(kIsolationDescriptor);
    for (;;) ::pause();
  }
  if (what == "outcome") reply(200, 0, {});
  if (what == "endless") reply(0, std::uint64_t{1} << 62, {});
  if (what != "noise" && what != "short" && what != "wait") return;
  if (request == Request::open) return reply(0, 0, {});
  if (what == "noise") return reply_with_noise(seed);
  if (what == "wait") return reply_later(closed);
  const std::array<std::byte, 3> bytes = {};
  reply(0, bytes.size(), bytes);
}

}  // namespace
}  // namespace h5feed::test

int main() {
  using namespace h5feed;
  const char* const what = std::getenv("H5FEED_FAKE_READER");
  std::vector<std::byte> request(1 << 20);
  std::uint64_t closed = 0;
  for (unsigned seed = 0;; ++seed) {
    std::uint64_t size = 0;
    if (::recv(kIsolationDescriptor, &size, sizeof size, MSG_WAITALL) != sizeof size) return 0;
    if (size > request.size()) return 1;
    if (::recv(kIsolationDescriptor, request.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size))
      return 1;
    const auto kind = WireReader(std::span(request).first(size)).get<Request>();
    if (kind == Request::close) ++closed;
    if (what != nullptr && kind != Request::close) test::act(what, kind, seed, closed);
  }
}
