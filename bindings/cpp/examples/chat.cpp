// Answers a message as the model was trained to; the answer is printed as it comes.
//
//   chat -m MODEL -p MESSAGE [-n N] [--temp T] [--top-k K] [--top-p P] [--seed S]
#include "options.hpp"

int main(int argc, char **argv) {
    return run(argc, argv, [](const Options &options) {
        auto model = ember::Model::load(options.model, ember::ModelOptions().cancel_token(interrupted));
        ember::Context context(model);
        auto prompt = model.tokenize(model.apply_chat_template({{"user", options.prompt}}), false, true);
        auto how = ember::GenerateOptions().max_tokens(options.n_tokens).cancel_token(interrupted);
        for (auto &event : context.generate_tokens(prompt, how, options.sampler()))
            std::cout << event.text() << std::flush;
        std::cout << "\n";
    });
}
