// SPDX-License-Identifier: Apache-2.0
// Which GPU a device name stands for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace h5feed::gpu {

/// The ordinal in "cuda:N"; 0 for "cuda"; nullopt for "auto". Throws OptionError for every other text.
std::optional<int> ordinal_in(std::string_view name);

/// As DeviceBackend::choose.
std::optional<int> choose_device(std::string_view name);

/// Address on the PCI bus as the driver writes it, "0000:19:00.0"; "unknown" where it does not say.
std::string pci_id_of(int device);

}  // namespace h5feed::gpu
