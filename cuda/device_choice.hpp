// SPDX-License-Identifier: Apache-2.0
// Resolves device names to GPUs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace h5feed::gpu {

/// Returns N for "cuda:N", 0 for "cuda", nullopt for "auto". Throws OptionError for any other text.
std::optional<int> ordinal_in(std::string_view name);

/// Returns the ordinal of the device that `name` stands for; see `DeviceBackend::choose`. "auto" takes the
/// device that the program has chosen, else the one with the most free memory that can be used. If no GPU can
/// be used, "auto" returns nullopt after a log line and other names throw DeviceError. Throws OptionError for
/// an invalid name and for a device that does not exist.
std::optional<int> choose_device(std::string_view name);

/// Returns the device whose context pins host memory: the one that is current for the program. Throws
/// DeviceError if no GPU can be used; its message says why.
int device_for_pinning();

/// Returns the PCI address as the driver writes it, "0000:19:00.0"; "unknown" if the driver does not tell.
std::string pci_id_of(int device);

}  // namespace h5feed::gpu
