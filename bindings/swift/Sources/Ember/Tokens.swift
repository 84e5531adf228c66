import CEmber

extension Model {
    /// The tokens of a text. `addSpecial` adds the BOS and EOS tokens that the model's texts begin and end with;
    /// `parseSpecial` takes the text of control tokens ("<|im_start|>") for these tokens: not for text that users type.
    public func tokenize(_ text: String, addSpecial: Bool = true, parseSpecial: Bool = false) throws -> [Token] {
        try text.withChars { text, count in
            try fill(count / 3 + 8) {
                ember_model_tokenize(handle, text, count, addSpecial, parseSpecial, $0, $1, $2, $3)
            }
        }
    }

    /// As ``tokenize(_:addSpecial:parseSpecial:)`` for bytes that need not be UTF-8.
    public func tokenize(bytes: [UInt8], addSpecial: Bool = true, parseSpecial: Bool = false) throws -> [Token] {
        try fill(bytes.count / 3 + 8) {
            ember_model_tokenize_bytes(handle, bytes, bytes.count, addSpecial, parseSpecial, $0, $1, $2, $3)
        }
    }

    /// The text of tokens; what is no UTF-8 in it, as when the tokens begin inside a code point, is U+FFFD. `renderSpecial`
    /// writes control tokens as their text instead of leaving them out.
    public func detokenize(_ tokens: [Token], renderSpecial: Bool = false) throws -> String {
        String(decoding: try detokenizeBytes(tokens, renderSpecial: renderSpecial), as: UTF8.self)
    }

    /// The exact bytes of tokens, joined.
    public func detokenizeBytes(_ tokens: [Token], renderSpecial: Bool = false) throws -> [UInt8] {
        try fill(8 * tokens.count) {
            ember_model_detokenize(handle, tokens, tokens.count, renderSpecial, $0, $1, $2, $3)
        }
    }

    /// The exact bytes of one token.
    public func bytes(of token: Token) throws -> [UInt8] {
        try fill(32) { ember_model_token_bytes(handle, token, $0, $1, $2, $3) }
    }

    /// Whether a token ends a generation (end of sequence, of turn, of message).
    public func isEndOfGeneration(_ token: Token) throws -> Bool {
        try read(false) { ember_model_token_is_eog(handle, token, $0, $1) }
    }

    /// Whether a token is a control token, such as BOS or the marks of a chat's turns, which stands for no text.
    public func isControl(_ token: Token) throws -> Bool {
        try read(false) { ember_model_token_is_control(handle, token, $0, $1) }
    }
}
