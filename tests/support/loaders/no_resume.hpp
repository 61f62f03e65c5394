// SPDX-License-Identifier: Apache-2.0
// For tests of caches and agendas in which no thread has to wait for another one's load.
#pragma once

#include <gtest/gtest.h>

namespace h5feed::test {

/// Callback for the end of a wait: fails the test, because nothing waits.
inline void no_resume() { FAIL() << "nobody waits in this test"; }

}  // namespace h5feed::test
