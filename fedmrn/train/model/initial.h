// A network that starts from the tensors of a file, model.init.
#pragma once

#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/train/model/model.h"

namespace fedmrn::train {

// Replaces what model.initialize draws by the tensors of the same name in
// `path`: a model.pt, or what torch.save made of a state_dict. Those that the
// file does not have are drawn as before, those that the network does not have
// are left; `notes` says which. Fails if a tensor is not finite or of another
// shape, or if none is taken.
Status StartFrom(const std::string& path, Model& model,
                 std::vector<std::string>& notes);

}  // namespace fedmrn::train
