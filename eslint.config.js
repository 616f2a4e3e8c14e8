// What eslint holds the components' scripts to; tsconfig.json is for their types.

import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["**/.venv*/", "**/node_modules/"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2024, sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "eqeqeq": ["error", "always", { null: "ignore" }],
      "max-len": ["error", { code: 120 }],
      "no-implicit-globals": "error",
      "no-restricted-properties": ["error", {
        property: "innerHTML", message: "Text only through textContent: what somebody typed is no markup.",
      }],
      "no-restricted-syntax": ["error", {
        selector: "CallExpression[callee.property.name=/^(toLocaleString|toExponential)$/]",
        message: "Numbers are written by shared/numbers.js.",
      }],
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "no-use-before-define": ["error", { functions: false, classes: false, variables: false }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": ["error", { destructuring: "all" }],
    },
  },
  { files: ["viz_ui/**/*.js"], languageOptions: { globals: globals.browser } },
  { files: ["viz_ui/components/shared/entry.js"], languageOptions: { globals: { COMPONENT: "readonly" } } },
  { files: ["viz_ui/components/shared/numbers.js"], rules: { "no-restricted-syntax": "off" } },
  { files: ["tests/**/*.js", "*.js"], languageOptions: { globals: globals.node } },
];
