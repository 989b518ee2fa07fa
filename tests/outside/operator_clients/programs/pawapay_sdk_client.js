// Drives the simulated pawaPay by pawapay-sdk, which has no model of callbacks.

const assert = require('assert')
const { randomUUID } = require('crypto')
const { createPawaPayClient } = require('pawapay-sdk')

const ORIGIN = process.env.OPERATOR_URL
const WAIT_MS = 100
const CUSTOMER = { type: 'MMO', accountDetails: { phoneNumber: '260763456789', provider: 'MTN_MOMO_ZMB' } }

// Asks until the payment has ended.
async function ended (ask, id) {
  for (;;) {
    const answer = await ask(id)
    assert.deepStrictEqual([answer.success, answer.data.status], [true, 'FOUND'])
    if (answer.data.data.status !== 'PROCESSING') return answer.data.data
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS))
  }
}

async function main () {
  const client = createPawaPayClient('simulated-pawapay-token', { apiVersion: 'v2', environment: 'sandbox' })
  const there = { options: { baseURL: `${ORIGIN}/v2` } }

  const configuration = (await client.getActiveConfiguration(there)).data
  const zambia = configuration.countries.find((each) => each.country === 'ZMB')
  const terms = zambia.providers.find((each) => each.provider === 'MTN_MOMO_ZMB').currencies[0].operationTypes.DEPOSIT
  assert.deepStrictEqual([terms.status, terms.decimalsInAmount], ['OPERATIONAL', 'TWO_PLACES'])
  const available = (await client.getProviderAvailability(there)).data
  assert.ok(available.some((each) => each.country === 'ZMB'))
  assert.ok((await client.getPublicKeys(there)).data[0].key.startsWith('-----BEGIN PUBLIC KEY-----'))

  const depositId = randomUUID()
  const metadata = [{ orderId: 'ORD-123456789' }]
  const deposit = { depositId, amount: '15.5', currency: 'ZMW', payer: CUSTOMER, customerMessage: 'Order 1', metadata }
  assert.strictEqual((await client.requestDeposit(deposit, there)).data.status, 'ACCEPTED')
  assert.strictEqual((await client.requestDeposit(deposit, there)).data.status, 'DUPLICATE_IGNORED')
  const paid = await ended((id) => client.checkDepositStatus(id, there), depositId)
  assert.deepStrictEqual([paid.status, paid.amount, paid.metadata], ['COMPLETED', '15.50', { orderId: 'ORD-123456789' }])
  const wrong = { ...deposit, depositId: randomUUID(), amount: '0.5' }
  assert.strictEqual((await client.requestDeposit(wrong, there)).data.failureReason.failureCode, 'AMOUNT_OUT_OF_BOUNDS')

  const payoutId = randomUUID()
  const payout = { payoutId, amount: '5', currency: 'ZMW', recipient: CUSTOMER, clientReferenceId: 'REF-1', metadata: [] }
  assert.strictEqual((await client.requestPayout(payout, there)).data.status, 'ACCEPTED')
  assert.strictEqual((await ended((id) => client.checkPayoutStatus(id, there), payoutId)).clientReferenceId, 'REF-1')

  const refundId = randomUUID()
  const refund = { refundId, depositId, amount: '10.5', currency: 'ZMW', clientReferenceId: 'REF-2', metadata: [] }
  assert.strictEqual((await client.initiateRefund(refund, there)).data.status, 'ACCEPTED')
  assert.strictEqual((await ended((id) => client.checkRefundStatus(id, there), refundId)).status, 'COMPLETED')

  const { balances } = (await client.getWalletBalances(there)).data
  assert.strictEqual(balances.find((each) => each.country === 'ZMB').balance, '10000000.00')
}

main().then(() => process.exit(0), (error) => {
  console.error(error)
  process.exit(1)
})
