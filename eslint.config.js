// What the JavaScript of the page is held to, beside its layout (prettier) and its types (tsc).

import js from "@eslint/js";
import globals from "globals";

const OVER_LINES = "TemplateElement[value.raw=/\\n/]";

export default [
  { ignores: ["node_modules", "site", "dist", ".venv"] },
  js.configs.recommended,
  {
    languageOptions: { globals: globals.browser },
    rules: {
      "max-len": ["error", { code: 120 }],
      "max-lines": ["error", 400],
      "max-lines-per-function": ["error", { max: 60, skipComments: true }],
      "no-restricted-syntax": ["error", { selector: OVER_LINES, message: "A saved page loses the indentation." }],
      "no-unused-vars": ["error", { args: "after-used", ignoreRestSiblings: true }],
      "prefer-const": "error",
      eqeqeq: "error",
      "no-var": "error",
    },
  },
  { files: ["tests/**"], languageOptions: { globals: globals.node }, rules: { "max-lines-per-function": "off" } },
];
