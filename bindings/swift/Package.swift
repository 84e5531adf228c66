// swift-tools-version: 6.0
import PackageDescription

/// A program over the package, run with `swift run ember-NAME`.
func program(_ name: String, path: String, _ dependencies: Target.Dependency...) -> Target {
    .executableTarget(name: "ember-\(name)", dependencies: ["Ember"] + dependencies, path: path)
}

let package = Package(
    name: "Ember",
    platforms: [.macOS(.v14), .iOS(.v17)],
    products: [.library(name: "Ember", targets: ["Ember"])],
    targets: [
        // The C library: its module map says what is linked. pkg-config knows where an installed one lies; for another place
        // see "Building" in README.md.
        .systemLibrary(name: "CEmber", pkgConfig: "ember"),
        .target(name: "Ember", dependencies: ["CEmber"]),

        .target(name: "ExampleOptions", dependencies: ["Ember"], path: "Examples/Options"),
        program("hello", path: "Examples/hello"),
        program("generate", path: "Examples/generate", "ExampleOptions"),
        program("chat", path: "Examples/chat", "ExampleOptions"),
        program("embed", path: "Examples/embed", "ExampleOptions"),

        .target(name: "COverhead", dependencies: ["CEmber"], path: "Overhead/C"),
        program("overhead", path: "Overhead/Swift", "COverhead", "ExampleOptions"),

        .testTarget(name: "EmberTests", dependencies: ["Ember", "CEmber"]),
    ]
)
