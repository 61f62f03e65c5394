// SPDX-License-Identifier: Apache-2.0
#include "store/serve/request_server.hpp"

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "h5feed/error.hpp"
#include "store/hdf5/external_files.hpp"
#include "store/hdf5/path_pattern.hpp"
#include "store/hdf5/text_list.hpp"
#include "store/hdf5/virtual_sources.hpp"
#include "store/index/chunk_index.hpp"
#include "store/index/index_damage.hpp"
#include "store/sparse/sparse_group.hpp"
#include "store/write/object_copy.hpp"

namespace h5feed {
namespace {

template <typename T>
std::vector<std::byte> encoded(const T& value) {
  WireWriter writer;
  writer.put(value);
  return writer.take();
}

SentLocations locations_of(const H5File& file, const DatasetInfo& info) {
  SentLocations sent;
  try {
    sent.locations = chunk_locations(file, info);
  } catch (const DamagedChunkIndex& error) {
    sent.damage = error.what();
  } catch (const UnreadableChunkIndex& error) {
    sent.unreadable = error.what();
  }
  return sent;
}

// A result of which the bytes follow the description.
std::vector<std::byte> stored_chunk_of(const H5File& file, WireReader& arguments) {
  const auto info = arguments.get<DatasetInfo>();
  const auto offset = arguments.get<std::vector<std::uint64_t>>();
  const auto max_bytes = arguments.get<std::uint64_t>();
  ByteBuffer raw;
  WireWriter writer;
  const auto chunk = file.read_stored_chunk(info, offset, max_bytes, raw);
  writer.put(chunk);
  if (chunk) writer.append(raw.span().first(static_cast<std::size_t>(chunk->bytes)));
  return writer.take();
}

std::vector<std::byte> hyperslab_of(const H5File& file, WireReader& arguments) {
  const auto info = arguments.get<DatasetInfo>();
  const auto start = arguments.get<std::vector<std::uint64_t>>();
  const auto count = arguments.get<std::vector<std::uint64_t>>();
  const auto cache_bytes = arguments.get<std::uint64_t>();
  std::uint64_t bytes = size_of(info.dtype);
  for (const std::uint64_t extent : count) bytes *= extent;
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  file.read_hyperslab(info, start, count, out, cache_bytes);
  return out;
}

}  // namespace

const H5File& RequestServer::file(std::uint64_t number) const {
  const auto found = files_.find(number);
  if (found == files_.end()) throw BadMessage("a file that is not open");
  return *found->second;
}

void RequestServer::run(Request request, std::uint64_t number, WireReader& arguments) {
  const auto text = [&] { return arguments.get<std::string>(); };
  const auto info = [&] { return arguments.get<DatasetInfo>(); };
  switch (request) {
    case Request::open: {
      const std::string path = text();
      const std::string place = text();
      files_[number] = H5File::open_at_risk(path, place);
      return;
    }
    case Request::close:
      files_.erase(number);
      return;
    case Request::list_datasets:
      result_ = encoded(file(number).list_datasets());
      return;
    case Request::list_external_links:
      result_ = encoded(file(number).list_external_links());
      return;
    case Request::list_one:
      result_ = encoded(file(number).list_one(text()));
      return;
    case Request::describe: {
      const std::string name = text();
      result_ = encoded(file(number).describe(name, arguments.get<PathOption>()));
      return;
    }
    case Request::describe_vlen:
      result_ = encoded(file(number).describe_vlen(text()));
      return;
    case Request::heap_format:
      result_ = encoded(file(number).heap_format());
      return;
    case Request::contiguous_offset:
      result_ = encoded(file(number).contiguous_offset(info()));
      return;
    case Request::read_stored_chunk:
      result_ = stored_chunk_of(file(number), arguments);
      return;
    case Request::read_hyperslab:
      result_ = hyperslab_of(file(number), arguments);
      return;
    case Request::chunk_locations:
      result_ = encoded(locations_of(file(number), info()));
      return;
    case Request::has_filter:
      result_ = encoded(libhdf5_has_filter(arguments.get<unsigned>()));
      return;
    case Request::text_list: {
      const std::string name = text();
      result_ = encoded(read_text_list(file(number), name, arguments.get<PathOption>()));
      return;
    }
    case Request::virtual_mappings:
      result_ = encoded(read_mappings(file(number), info()));
      return;
    case Request::external_parts:
      result_ = encoded(external_parts(file(number), info()));
      return;
    case Request::expand_path: {
      const std::string pattern = text();
      result_ = encoded(expand_path(file(number), pattern, arguments.get<PathOption>()));
      return;
    }
    case Request::sparse_group:
      result_ = encoded(find_sparse_group(file(number), text()));
      return;
    case Request::sparse_names:
      result_ = encoded(read_names(file(number), text()));
      return;
    case Request::categorical:
      result_ = encoded(find_categorical(file(number), text()));
      return;
    case Request::end_of_path:
      result_ = encoded(file(number).end_of(text()));
      return;
    case Request::rehearse_copy: {
      CopyPlan plan;
      for (const std::string& path : arguments.get<std::vector<std::string>>())
        plan.filled_by_caller[path] = {};
      plan.latest = arguments.get<bool>();
      plan.elsewhere = arguments.get<bool>();
      rehearse_copy(file(number), plan);
      result_ = encoded(true);
      return;
    }
    case Request::object_numbers:
      result_ = encoded(object_numbers(file(number), arguments.get<std::vector<std::string>>()));
      return;
  }
}

RequestServer::Answer RequestServer::answer(std::span<const std::byte> request) {
  WireReader arguments(request);
  const auto what = arguments.get<Request>();
  const auto number = arguments.get<std::uint64_t>();
  result_.clear();
  const auto failed = [this](Outcome outcome, const char* message) {
    const auto text = std::as_bytes(std::span(message, std::char_traits<char>::length(message)));
    result_.assign(text.begin(), text.end());
    return Answer{.outcome = outcome, .bytes = result_};
  };
  try {
    run(what, number, arguments);
    return {.wanted = what != Request::close, .bytes = result_};
  } catch (const DatasetError& error) {
    return failed(Outcome::dataset_error, error.what());
  } catch (const VersionError& error) {
    return failed(Outcome::version_error, error.what());
  } catch (const Error& error) {
    // libhdf5's words for a malloc that failed.
    if (std::string_view(error.what()).find("memory allocation failed") != std::string_view::npos)
      return {.outcome = Outcome::out_of_memory};
    return failed(Outcome::file_error, error.what());
  } catch (const std::invalid_argument& error) {
    return failed(Outcome::invalid_argument, error.what());
  } catch (const std::bad_alloc&) {
    result_ = {};
    return {.outcome = Outcome::out_of_memory};
  }
}

}  // namespace h5feed
