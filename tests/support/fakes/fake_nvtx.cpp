// SPDX-License-Identifier: Apache-2.0
// A tool that listens to NVTX, loaded through NVTX_INJECTION64_PATH: records the begin and end of ranges.
// Interface: nvtx3/nvtxDetail/nvtxTypes.h.
#include <nvtx3/nvToolsExt.h>

#include <mutex>
#include <string>
#include <utility>

namespace {

std::mutex mutex;
std::string notes;  // "domain h5feed", "+gather 7", "-", one a line

void note(const std::string& line) {
  const std::lock_guard lock(mutex);
  notes += line + "\n";
}

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  note(std::string("domain ") + name);
  return reinterpret_cast<nvtxDomainHandle_t>(&notes);
}

// The handle of a registered string is its text.
nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(const_cast<char*>(text));
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
  const bool ours = domain == reinterpret_cast<nvtxDomainHandle_t>(&notes);
  note((ours ? "+" : "?") + std::string(reinterpret_cast<const char*>(range->message.registered)) + " " +
       std::to_string(range->payload.ullValue) + " category " + std::to_string(range->category));
  return 0;
}

int NVTX_API pop(nvtxDomainHandle_t) {
  note("-");
  return 0;
}

template <typename Function>
NvtxFunctionPointer as_pointer(Function* function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" {

/// Returns what was recorded since the last call.
__attribute__((visibility("default"))) const char* fake_nvtx_take_notes() {
  static std::string taken;
  const std::lock_guard lock(mutex);
  taken = std::exchange(notes, {});
  return taken.c_str();
}

__attribute__((visibility("default"))) int NVTX_API
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0)
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = as_pointer(create_domain);
  *table[NVTX_CBID_CORE2_DomainRegisterStringA] = as_pointer(register_string);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = as_pointer(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = as_pointer(pop);
  return 1;
}

}  // extern "C"
