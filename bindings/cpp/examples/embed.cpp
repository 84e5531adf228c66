// Prints how alike two texts are: the cosine of their vectors.
//
//   embed -m MODEL TEXT TEXT
#include <iomanip>
#include <numeric>

#include "options.hpp"

int main(int argc, char **argv) {
    return run(argc, argv, [](const Options &options) {
        if (options.texts.size() != 2)
            throw UsageError("give two texts to compare");
        auto model = ember::Model::load(options.model, ember::ModelOptions().cancel_token(interrupted));
        ember::Context context(model);
        context.set_cancel_token(interrupted);
        auto vectors = context.embed(options.texts);
        double cosine = std::inner_product(vectors[0].begin(), vectors[0].end(), vectors[1].begin(), 0.0);
        std::cout << std::fixed << std::setprecision(4) << cosine << "\n";
    });
}
