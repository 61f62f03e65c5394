// SPDX-License-Identifier: Apache-2.0
// The server of metrics, as a client sees it.
#include "tools/monitor/metrics_server.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "support/wait_until.hpp"

namespace h5feed::test {
namespace {

using namespace cli;  // NOLINT: this file tests it
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string port_in(const std::string& url) {
  const auto colon = url.rfind(':');
  return url.substr(colon + 1, url.find('/', colon) - colon - 1);
}

// Connects to the loopback.
FileDescriptor connect_to(const std::string& port) {
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) fd.reset();
  return fd;
}

// Sends a request and returns all of the reply.
std::string reply_to(const MetricsServer& server, std::string_view request) {
  const FileDescriptor fd = connect_to(port_in(server.url()));
  if (!fd.valid() || ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return {};
  std::string reply;
  std::array<char, 512> some = {};
  for (ssize_t got = 0; (got = ::recv(fd.get(), some.data(), some.size(), 0)) > 0;)
    reply.append(some.data(), static_cast<std::size_t>(got));
  return reply;
}

TEST(MetricsServer, answers_with_the_text_that_was_set_last) {
  MetricsServer server(parse_listen("0"));
  EXPECT_THAT(server.url(), AllOf(StartsWith("http://127.0.0.1:"), EndsWith("/metrics")));
  EXPECT_THAT(reply_to(server, "GET /metrics HTTP/1.1\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Length: 0\r\n")));
  server.set("first\n");
  server.set("second\n");
  EXPECT_THAT(reply_to(server, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"),
              AllOf(HasSubstr("text/plain; version=0.0.4"), EndsWith("\r\n\r\nsecond\n")));
}

TEST(MetricsServer, refuses_other_requests) {
  const MetricsServer server(parse_listen("127.0.0.1:0"));
  EXPECT_THAT(reply_to(server, "GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(reply_to(server, "POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_EQ(reply_to(server, std::string(20'000, 'x')), "") << "no end in sight";
}

TEST(MetricsServer, ends_while_a_client_is_silent) {
  auto server = std::make_unique<MetricsServer>(parse_listen("0"), std::chrono::hours(1));
  FileDescriptor silent = connect_to(port_in(server->url()));
  ASSERT_TRUE(silent.valid());
  // Connections are accepted one after the other: with this reply the server has the silent one, too.
  ASSERT_THAT(reply_to(*server, "GET /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  std::atomic<bool> ended = false;
  std::jthread ends([&] {
    server.reset();
    ended = true;
  });
  EXPECT_TRUE(wait_until([&] { return ended.load(); })) << "it waits for the client";
  silent.reset();  // such a server would end now
}

// More than the server keeps: each of them would hold up the next request for an hour.
TEST(MetricsServer, answers_beside_clients_that_are_silent) {
  MetricsServer server(parse_listen("0"), std::chrono::hours(1));
  server.set("text\n");
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(connect_to(port_in(server.url())));
    ASSERT_TRUE(silent.back().valid());
  }
  for (int i = 0; i < 20; ++i)
    EXPECT_THAT(reply_to(server, "GET /metrics HTTP/1.1\r\n\r\n"), EndsWith("\r\n\r\ntext\n"));
}

TEST(MetricsServer, names_an_address_that_is_taken) {
  const MetricsServer server(parse_listen("0"));
  const std::string port = port_in(server.url());
  try {
    const MetricsServer second(parse_listen(port));
    ADD_FAILURE() << "two servers at one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "--listen: cannot listen at 127.0.0.1 port " + port +
                                " (Address already in use); choose another one");
  }
}

}  // namespace
}  // namespace h5feed::test
