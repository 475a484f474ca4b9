// The registry that owns one backend per device: the only process-wide state of the core.
#pragma once

#include "core/tensor/device.h"

#include <vector>

namespace whisker {

class Backend;

/// The backend of `device`, made on first use. Throws device when this build or machine lacks it.
Backend& backend_of(Device device);

/// Takes the place of the reference's backend while it lives, on every thread: for tests that watch
/// or change what a backend does.
class ReferenceStandIn {
 public:
  explicit ReferenceStandIn(Backend& backend);
  ~ReferenceStandIn();
  ReferenceStandIn(const ReferenceStandIn&) = delete;
  ReferenceStandIn& operator=(const ReferenceStandIn&) = delete;

 private:
  Backend* replaced_;
};

/// Every device that can be used here, reference and cpu first.
std::vector<Device> available_devices();

}  // namespace whisker
