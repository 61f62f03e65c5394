// SPDX-License-Identifier: Apache-2.0
// Serves the text of Prometheus over HTTP.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.hpp"
#include "base/files/file_descriptor.hpp"

namespace h5feed::cli {

/// An address to listen at.
struct ListenAddress {
  std::string host = "127.0.0.1";
  std::string port;  ///< A number; "0": any free one
};

/// Parses "[ADDRESS:]PORT", the value of --listen; an IPv6 address is in brackets. Without an address it is
/// the loopback. Throws OptionError that names the accepted forms.
ListenAddress parse_listen(std::string_view text);

/// Answers "GET /metrics" with the text that was set last, on a thread of its own; other requests get 404 or
/// 405. Serves up to 16 connections at a time, each for a limited time; a further one ends the oldest,
/// so that connections which send nothing keep nobody out. Thread-safe.
class MetricsServer {
 public:
  /// Starts to listen, and serves each connection for at most `patience`. Throws Error that names the address
  /// if it cannot listen.
  explicit MetricsServer(const ListenAddress& where,
                         std::chrono::milliseconds patience = std::chrono::seconds(2));
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;
  /// Ends the connections in progress, without waiting for their time to be over.
  ~MetricsServer();

  /// Replaces the text.
  void set(std::string text);
  /// Returns the URL of the metrics.
  const std::string& url() const noexcept { return url_; }

 private:
  struct Connection;
  void serve();
  std::string reply_to(std::string_view request);

  std::chrono::milliseconds patience_;
  FileDescriptor socket_, stop_;
  std::string url_;
  std::mutex mutex_;
  std::string text_;  // guarded by `mutex_`
  std::thread thread_;
};

}  // namespace h5feed::cli
