#include "nn/cuda/cuda_images.h"

#include <algorithm>
#include <optional>

namespace oarlock::nn::cuda {
namespace {

// The most device memory for patches. A product of this size uses a whole GPU,
// and the memory is small in comparison with what training needs.
constexpr size_t kMaxPatchFloats = size_t{64} << 20;

// The sizes of a convolution as a product.
struct Patches {
  explicit Patches(const ConvolutionShape& shape)
      : window(OnImage(shape.image, shape.window)),
        positions(NumPositions(shape.image, shape.window).area()),
        size(shape.window.kernel.area() * shape.in_channels) {}

  // Cuts the images into chunks and calls run(first image, number of images)
  // for each.
  template <typename Run>
  void ForChunks(size_t images, const Run& run) const {
    const size_t per_image = std::max<size_t>(positions * size, 1);
    const size_t chunk = std::max<size_t>(kMaxPatchFloats / per_image, 1);
    for (size_t first = 0; first < images; first += chunk) {
      run(first, std::min(chunk, images - first));
    }
  }

  WindowOnImage window;
  size_t positions;  // of an image
  size_t size;       // of a patch
};

}  // namespace

void CudaImages::Convolution(const ConvolutionArgs& args, float* y) {
  if (ConvolveByDevice(args, y)) return;
  ConvolveByPatches(args, y);
}

void CudaImages::ConvolutionBackward(const ConvolutionArgs& args,
                                     const float* y,
                                     const ConvolutionGradients& g) {
  const ConvolutionShape& shape = args.shape;
  if (g.dbias != nullptr) {
    math_.SumRows(
        args.images * NumPositions(shape.image, shape.window).area(),
        shape.out_channels,
        BiasGradientTerm{shape.out_channels, args.activation, y, g.dy}, 1,
        g.parameter_write, g.dbias);
  }
  if (args.images == 0) {
    if (g.parameter_write == Write::kAdd) return;
    math_.device().Run(ForEach<FillBody>{{shape.weight_size(), 0, g.dweight}});
    return;
  }
  ConvolutionGradients left = g;
  if (WeightGradientByDevice(args, g)) left.dweight = nullptr;
  if (g.dx != nullptr && InputGradientByDevice(args, g)) left.dx = nullptr;
  GradientsByPatches(args, left);
}

bool CudaImages::ConvolveByDevice(const ConvolutionArgs& args, float* y) {
  ConvolutionPass pass = PassOf(ConvolutionPass::Kind::kForward, args);
  pass.x = args.x;
  pass.result = y;
  if (!Prepare(&pass)) return false;
  pass.weight = TurnWeight(args);
  if (!math_.device().Convolve(pass)) return false;
  if (args.bias != nullptr) {
    math_.device().Run(ForEach<AddBiasBody>{
        {args.images * args.shape.output_size(), args.shape.out_channels,
         args.activation, args.bias, y}});
  }
  return true;
}

bool CudaImages::WeightGradientByDevice(const ConvolutionArgs& args,
                                        const ConvolutionGradients& g) {
  ConvolutionPass pass = PassOf(ConvolutionPass::Kind::kWeightGradient, args);
  pass.x = args.x;
  pass.dy = g.dy;
  if (!Prepare(&pass)) return false;
  const ConvolutionShape& shape = args.shape;
  pass.result = weight_.Get<float>(shape.weight_size());
  if (!math_.device().Convolve(pass)) return false;
  const size_t out = shape.out_channels;
  math_.device().Run(ForEach<TransposeBody>{
      {shape.weight_size(), out, shape.weight_size() / out, g.parameter_write,
       pass.result, g.dweight}});
  return true;
}

bool CudaImages::InputGradientByDevice(const ConvolutionArgs& args,
                                       const ConvolutionGradients& g) {
  ConvolutionPass pass = PassOf(ConvolutionPass::Kind::kInputGradient, args);
  pass.dy = g.dy;
  pass.result = g.dx;
  pass.write = g.dx_write;
  if (!Prepare(&pass)) return false;
  pass.weight = TurnWeight(args);
  return math_.device().Convolve(pass);
}

ConvolutionPass CudaImages::PassOf(ConvolutionPass::Kind kind,
                                   const ConvolutionArgs& args) const {
  ConvolutionPass pass;
  pass.kind = kind;
  pass.numbers = math_.numbers();
  pass.images = args.images;
  pass.shape = args.shape;
  return pass;
}

bool CudaImages::Prepare(ConvolutionPass* pass) {
  if (pass->images == 0 || pass->numbers == Numbers::kBfloat16) return false;
  const std::optional<size_t> num_bytes =
      math_.device().ConvolutionWorkspace(*pass);
  if (!num_bytes.has_value()) return false;
  pass->workspace = workspace_.Get<char>(*num_bytes);
  pass->workspace_bytes = *num_bytes;
  return true;
}

const float* CudaImages::TurnWeight(const ConvolutionArgs& args) {
  const size_t size = args.shape.weight_size();
  const size_t out = args.shape.out_channels;
  float* const turned = weight_.Get<float>(size);
  math_.device().Run(ForEach<TransposeBody>{
      {size, size / out, out, Write::kOverwrite, args.weight, turned}});
  return turned;
}

void CudaImages::ConvolveByPatches(const ConvolutionArgs& args, float* y) {
  const ConvolutionShape& shape = args.shape;
  const Patches p(shape);
  const size_t out = shape.out_channels;
  p.ForChunks(args.images, [&](size_t first, size_t images) {
    const size_t rows = images * p.positions;
    float* const patches = patches_.Get<float>(rows * p.size);
    math_.device().Run(
        ForEach<PatchesBody>{{rows * p.size, p.window, shape.in_channels,
                              args.x + first * shape.input_size(), patches}});
    math_.Multiply({rows, out, p.size, patches, p.size, false, args.weight, out,
                    false, Write::kOverwrite, y + first * shape.output_size(),
                    out, args.bias, args.activation});
  });
}

void CudaImages::GradientsByPatches(const ConvolutionArgs& args,
                                    const ConvolutionGradients& g) {
  if (g.dweight == nullptr && g.dx == nullptr) return;
  const ConvolutionShape& shape = args.shape;
  const Patches p(shape);
  const size_t out = shape.out_channels;
  Write weight_write = g.parameter_write;
  p.ForChunks(args.images, [&](size_t first, size_t images) {
    const size_t rows = images * p.positions;
    const float* const dy = g.dy + first * shape.output_size();
    float* const patches = patches_.Get<float>(rows * p.size);
    if (g.dweight != nullptr) {
      math_.device().Run(
          ForEach<PatchesBody>{{rows * p.size, p.window, shape.in_channels,
                                args.x + first * shape.input_size(), patches}});
      math_.Multiply({p.size, out, rows, patches, p.size, true, dy, out, false,
                      weight_write, g.dweight, out});
      weight_write = Write::kAdd;
    }
    if (g.dx == nullptr) return;
    // The patches are no longer needed: their gradient overwrites them.
    math_.Multiply({rows, p.size, out, dy, out, false, args.weight, out, true,
                    Write::kOverwrite, patches, p.size});
    math_.device().Run(ForEach<PatchesBackwardBody>{
        {images * shape.input_size(), p.window, shape.in_channels, g.dx_write,
         patches, g.dx + first * shape.input_size()}});
  });
}

void CudaImages::MaxPool(const PoolingShape& shape, Activation activation,
                         const float* x, float* y, uint8_t* chosen) {
  math_.device().Run(ForEach<MaxPoolBody>{
      {shape.output_size(), OnImage(shape.image, shape.window), shape.channels,
       activation, x, y, chosen}});
}

void CudaImages::MaxPoolBackward(const PoolingShape& shape, const float* dy,
                                 const uint8_t* chosen, Write write,
                                 float* dx) {
  math_.device().Run(ForEach<MaxPoolBackwardBody>{
      {shape.images * shape.image.area() * shape.channels,
       OnImage(shape.image, shape.window), shape.channels, write, dy, chosen,
       dx}});
}

void CudaImages::AveragePool(const PoolingShape& shape, const float* x,
                             float* y) {
  math_.device().Run(ForEach<AveragePoolBody>{
      {shape.output_size(), OnImage(shape.image, shape.window), shape.channels,
       x, y}});
}

void CudaImages::AveragePoolBackward(const PoolingShape& shape, const float* dy,
                                     Write write, float* dx) {
  math_.device().Run(ForEach<AveragePoolBackwardBody>{
      {shape.images * shape.image.area() * shape.channels,
       OnImage(shape.image, shape.window), shape.channels, write, dy, dx}});
}

void CudaImages::Normalize(const BatchNormArgs& args, const float* mean,
                           const float* variance, float* y) {
  math_.device().Run(ForEach<NormalizeBody>{
      {args.rows * args.channels, args.channels, args.epsilon, args.activation,
       args.x, mean, variance, args.scale, args.shift, args.residual, y}});
}

void CudaImages::BatchNormTraining(const BatchNormArgs& args, float* y) {
  if (args.rows == 0) return;
  const size_t cols = args.channels;
  const double rows = static_cast<double>(args.rows);
  const double unbiased = args.rows > 1 ? rows / (rows - 1) : 1;
  float* const mean = args.scratch;
  float* const variance = mean + cols;
  math_.SumRows(args.rows, cols, ValueTerm{cols, args.x}, 1 / rows,
                Write::kOverwrite, mean);
  math_.SumRows(args.rows, cols, SquaredDifferenceTerm{cols, args.x, mean},
                1 / rows, Write::kOverwrite, variance);
  math_.device().Run(ForEach<MoveRunningBody>{
      {cols, args.momentum, 1, mean, args.running_mean}});
  math_.device().Run(ForEach<MoveRunningBody>{
      {cols, args.momentum, unbiased, variance, args.running_variance}});
  Normalize(args, mean, variance, y);
}

void CudaImages::BatchNormInference(const BatchNormArgs& args, float* y) {
  Normalize(args, args.running_mean, args.running_variance, y);
}

void CudaImages::BatchNormBackward(const BatchNormArgs& args, const float* y,
                                   const BatchNormGradients& g) {
  const size_t cols = args.channels;
  const NormTerms terms = {cols, args.epsilon, args.activation, args.x,
                           y,    g.dy,         args.scratch};
  // Sums of this batch alone, without the contents of the caller's arrays.
  float* const dshift = sums_.Get<float>(2 * cols);
  float* const dscale = dshift + cols;
  math_.SumRows(args.rows, cols, ShiftGradientTerm{terms}, 1, Write::kOverwrite,
                dshift);
  math_.SumRows(args.rows, cols, ScaleGradientTerm{terms}, 1, Write::kOverwrite,
                dscale);
  const auto put = [&](const float* sums, float* to) {
    math_.device().Run(ForEach<CopyColumnsBody>{
        {cols, cols, cols, cols, g.parameter_write, sums, to}});
  };
  put(dshift, g.dshift);
  put(dscale, g.dscale);
  math_.device().Run(ForEach<NormBackwardBody>{
      {args.rows * cols, args.rows, terms, args.scale, dshift, dscale,
       g.dx_write, g.dx, g.dresidual_write, g.dresidual}});
}

void CudaImages::ScaleBytes(size_t pixels, size_t channels,
                            const uint8_t* bytes, const ByteScale& scale,
                            float* y) {
  ScaleBytesBody body = {pixels * channels, channels, {}, {}, bytes, y};
  std::copy(scale.factor.begin(), scale.factor.end(), body.factor);
  std::copy(scale.addend.begin(), scale.addend.end(), body.addend);
  math_.device().Run(ForEach<ScaleBytesBody>{body});
}

}  // namespace oarlock::nn::cuda
