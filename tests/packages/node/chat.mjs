// Answers each line of standard input, as it comes.
import { createInterface } from "node:readline";
import { Model } from "ember-inference";

const model = await Model.load(process.argv[2]);
const context = model.context();
const chat = await context.conversation({ maxTokens: 32 });
for await (const line of createInterface({ input: process.stdin })) {
  for await (const event of chat.send(line)) {
    if (event.kind === "text") process.stdout.write(event.text);
  }
  process.stdout.write("\n");
}
chat.close();
context.close();
model.close();
