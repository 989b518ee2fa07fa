// Drives the simulated MTN MoMo by mtn-momo of npm: a user of its own, collections and pay-outs. It
// has no model of callbacks.

const assert = require('assert')
const momo = require('mtn-momo')

const ORIGIN = process.env.OPERATOR_URL
const COLLECTION_KEY = '5c011ec7104e4d84a1f0c2e9106a2d34'
const DISBURSEMENT_KEY = 'd15b0250e3f74a6c9b1d7e2f4c8a0b36'
const PAYER = '46733123999'
const WAIT_MS = 100

// Asks until the payment has ended; a failed one is thrown.
async function ended (product, id) {
  for (;;) {
    const found = await product.getTransaction(id)
    if (found.status !== 'PENDING') return found
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS))
  }
}

async function main () {
  const { Users, Collections, Disbursements } = momo.create({ callbackHost: '127.0.0.1', baseUrl: ORIGIN })
  const users = Users({ primaryKey: COLLECTION_KEY })
  const userId = await users.create('127.0.0.1')
  const { apiKey } = await users.login(userId)

  const collections = Collections({ primaryKey: COLLECTION_KEY, userId, userSecret: apiKey })
  const texts = { payerMessage: 'Order 1', payeeNote: 'Order 1' }
  const payment = (partyId) => ({
    amount: '100', currency: 'EUR', externalId: 'order-1', payer: { partyIdType: 'MSISDN', partyId }, ...texts
  })
  const paid = await ended(collections, await collections.requestToPay(payment(PAYER)))
  assert.deepStrictEqual([paid.status, paid.amount, paid.externalId], ['SUCCESSFUL', '100', 'order-1'])
  const refused = await collections.requestToPay(payment('46733123451'))
  await assert.rejects(ended(collections, refused), { name: 'ApprovalRejectedError' })
  assert.strictEqual((await collections.getBalance()).currency, 'EUR')
  // It returns the whole answer, though its types promise a boolean.
  assert.deepStrictEqual(await collections.isPayerActive(PAYER), { result: true })

  const disbursements = Disbursements({ primaryKey: DISBURSEMENT_KEY, userId, userSecret: apiKey })
  const payout = { ...payment(PAYER), payee: { partyIdType: 'MSISDN', partyId: PAYER }, amount: '30' }
  const { payer, ...transfer } = payout
  const sent = await ended(disbursements, await disbursements.transfer(transfer))
  assert.deepStrictEqual([sent.status, sent.amount], ['SUCCESSFUL', '30'])
  assert.strictEqual((await disbursements.getBalance()).availableBalance, '999970')
}

main().then(() => process.exit(0), (error) => {
  console.error(error)
  process.exit(1)
})
