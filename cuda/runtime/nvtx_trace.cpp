// SPDX-License-Identifier: Apache-2.0
// The NVTX trace sink of h5feed/nvtx.hpp.
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <cstddef>

#include "h5feed/nvtx.hpp"

namespace h5feed::gpu {
namespace {

constexpr std::array kStages = {Stage::plan, Stage::read_decode, Stage::gather, Stage::transfer, Stage::wait};

class NvtxTrace final : public TraceSink {
 public:
  // Domain and strings are never destroyed: NVTX ignores them once a tool is gone, and other threads may
  // still be in a range.
  NvtxTrace() : domain_(nvtxDomainCreateA("h5feed")) {
    for (const Stage stage : kStages) {
      const auto number = static_cast<std::size_t>(stage);
      names_[number] = nvtxDomainRegisterStringA(domain_, name_of(stage));
      nvtxDomainNameCategoryA(domain_, category_of(stage), name_of(stage));
    }
  }

  void begin(Stage stage, std::uint64_t batch) noexcept override {
    nvtxEventAttributes_t range = {};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.category = category_of(stage);
    range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    range.message.registered = names_[static_cast<std::size_t>(stage)];
    range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    range.payload.ullValue = batch;
    nvtxDomainRangePushEx(domain_, &range);
  }
  void end(Stage, std::uint64_t) noexcept override { nvtxDomainRangePop(domain_); }

 private:
  // Returns the NVTX category of a stage; 0 would mean "no category".
  static std::uint32_t category_of(Stage stage) noexcept { return static_cast<std::uint32_t>(stage) + 1; }

  nvtxDomainHandle_t domain_;
  std::array<nvtxStringHandle_t, kStages.size()> names_ = {};
};

}  // namespace

std::shared_ptr<TraceSink> nvtx_trace() { return std::make_shared<NvtxTrace>(); }

}  // namespace h5feed::gpu
