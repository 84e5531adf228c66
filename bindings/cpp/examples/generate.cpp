// Continues a prompt; the text is printed as it comes.
//
//   generate -m MODEL -p PROMPT [-n N] [--temp T] [--top-k K] [--top-p P] [--seed S]
#include "options.hpp"

int main(int argc, char **argv) {
    return run(argc, argv, [](const Options &options) {
        auto model = ember::Model::load(options.model, ember::ModelOptions().cancel_token(interrupted));
        ember::Context context(model);
        auto how = ember::GenerateOptions().max_tokens(options.n_tokens).cancel_token(interrupted);
        std::cout << options.prompt << std::flush;
        for (auto &event : context.generate(options.prompt, how, options.sampler()))
            std::cout << event.text() << std::flush;
        std::cout << "\n";
    });
}
