// Every layer, for programs that build networks in C++.
#pragma once

#include "layers/activation.h"
#include "layers/batch_norm.h"
#include "layers/branches.h"
#include "layers/conv2d.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/flatten.h"
#include "layers/group_norm.h"
#include "layers/layer_norm.h"
#include "layers/pool.h"
#include "layers/recurrent.h"
#include "layers/residual.h"
#include "layers/sequential.h"
